/* SPDX-License-Identifier: MIT */
#include <stdio.h>

int main(void)
{
	puts("tenure " TENURE_VERSION);
	return 0;
}
