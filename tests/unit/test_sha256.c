/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/sha256.h"

/* FIPS 180-4's own examples, and each length around the end of a block against coreutils'
 * sha256sum. */
static const struct {
	const char *text;
	size_t times;
	const char *hex;
} cases[] = {
	{ "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
	{ "a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318" },
	{ "a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a" },
	{ "a", 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34" },
	{ "a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
	{ "a", 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0" },
	{ "a", 119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb" },
	{ "a", 120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c" },
	{ "a", 128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e" },
};

static void test_cases(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		cleanup_free char *data = xmalloc(len * cases[i].times + 1);
		char hex[SHA256_HEX_MAX];

		for (size_t k = 0; k < cases[i].times; k++)
			memcpy(data + k * len, cases[i].text, len);
		sha256_hex(data, len * cases[i].times, hex);
		assert_string_equal(hex, cases[i].hex);
	}
}

/* RFC 4231, test cases 1, 2 and 6 (a key that is longer than a block). */
static void test_with_a_key(void **state)
{
	unsigned char digest[SHA256_SIZE], key[131];

	memset(key, 0x0b, 20);
	sha256_hmac(key, 20, "Hi There", 8, digest);
	assert_int_equal(digest[0] << 8 | digest[31], 0xb0f7);
	sha256_hmac("Jefe", 4, "what do ya want for nothing?", 28, digest);
	assert_int_equal(digest[0] << 8 | digest[31], 0x5b43);
	memset(key, 0xaa, sizeof(key));
	sha256_hmac(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54,
		    digest);
	assert_int_equal(digest[0] << 8 | digest[31], 0x6054);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases),
					    cmocka_unit_test(test_with_a_key) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
