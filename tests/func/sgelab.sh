#!/bin/bash
# SPDX-License-Identifier: MIT
# sgelab.sh CMD...: one host with Grid Engine on it, in namespaces of its own (tests/func/sgelab.py starts it there). CMD
# is what execd runs in, so that its jobs see the cards of CMD's simulated machine. Ends, and all with it, when its input
# does.
set -eu
lab=$SGELAB root=$SGE_ROOT cell=$SGE_CELL host=$SGELAB_HOST gpus=$SGELAB_GPUS
spool=$lab/spool
mkdir -p "$lab"/{home,tmp} "$root/$cell/common" "$spool"/{qmaster/job_scripts,spooldb,execd}

mount --make-rprivate / 2>/dev/null || true
ip link set lo up
hostname "$host"
printf '127.0.0.1 %s localhost\n' "$host" >"$lab/hosts"
mount --bind "$lab/hosts" /etc/hosts
# The home in which Grid Engine looks for a user's files, and may not look where an ordinary user is root in here.
awk -F: -v OFS=: -v home="$lab/home" '$3 == 0 { $6 = home } 1' /etc/passwd >"$lab/passwd"
mount --bind "$lab/passwd" /etc/passwd
for dir in bin lib util utilbin; do ln -s "/var/lib/gridengine/$dir" "$root/$dir"; done
cat >"$root/$cell/common/bootstrap" <<END
admin_user none
default_domain none
ignore_fqdn true
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params $spool/spooldb
binary_path /usr/lib/gridengine
qmaster_spool_dir $spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
END
echo "$host" >"$root/$cell/common/act_qmaster"
/usr/share/gridengine/scripts/init_cluster "$root" "$cell" "$spool/spooldb" root

await() {
	for _ in {1..400}; do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	echo "sgelab: not in 20 s: $*" >&2
	return 1
}

# It is in the background, and does not listen yet.
sge_qmaster </dev/null
await qconf -sh

part=$lab/part
mkdir "$part"
qconf -sconf | sed -e '/^#/d' -e "s#^execd_spool_dir.*#execd_spool_dir $spool/execd#
	s#^mailer.*#mailer /bin/true#; s#^load_report_time.*#load_report_time 00:00:01#
	s#^max_unheard.*#max_unheard 00:01:00#; s#^min_uid.*#min_uid 0#; s#^min_gid.*#min_gid 0#
	s#^gid_range.*#gid_range 2000-2099#" >"$part/global"
qconf -Mconf "$part/global"
qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/; s/^flush_submit_sec.*/flush_submit_sec 1/
	s/^flush_finish_sec.*/flush_finish_sec 1/; s/^schedd_job_info.*/schedd_job_info true/' >"$part/scheduler"
qconf -Msconf "$part/scheduler"
{
	qconf -sc
	echo 'gpu_card gpu INT <= YES JOB 0 0'
} >"$part/complexes"
qconf -Mc "$part/complexes"
cat >"$part/host" <<END
hostname $host
load_scaling NONE
complex_values gpu_card=$gpus
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
END
qconf -Ae "$part/host"
qconf -as "$host"
printf 'group_name @crc_gpu\nhostlist %s\n' "$host" >"$part/group"
qconf -Ahgrp "$part/group"
qconf -sq | sed -e 's/^qname.*/qname gpu/; s/^hostlist.*/hostlist @crc_gpu/; s/^pe_list.*/pe_list NONE/; s/^slots.*/slots 16/
	s#^shell .*#shell /bin/sh#; s/^shell_start_mode.*/shell_start_mode unix_behavior/; s/^notify.*/notify 00:00:01/
	s/^load_thresholds.*/load_thresholds NONE/' -e "s#^starter_method.*#starter_method $lab/starter#
	s#^tmpdir.*#tmpdir $lab/tmp#" >"$part/queue"
qconf -Aq "$part/queue"

# Jobs get little of execd's environment. As on a cluster their home is the one of where they were submitted; what makes
# them see the cards is what the simulated machine has given to execd.
starter=$lab/starter
cat >"$lab/node" <<END
#!/bin/bash
{
	echo '#!/bin/bash'
	printf 'export HOME=%q LD_LIBRARY_PATH=%q\n' "\$HOME" "\$LD_LIBRARY_PATH"
	echo 'unset TENURE_ROOT TENURE_STATE_DIR'
	echo 'exec /bin/sh "\$@"'
} >"$starter"
chmod +x "$starter"
# The machine outlives its execd, as machines do.
while true; do
	sge_execd
	until [ -e "$lab/execd.again" ]; do sleep 0.1; done
	rm "$lab/execd.again"
done
END
chmod +x "$lab/node"
# SGE_ND: it stays what it was started as, in the simulated machine.
SGE_ND=1 "$@" "$lab/node" </dev/null >"$lab/execd.log" 2>&1 &
up() { qstat -f | grep -q 'lx-amd64 *$'; }
await up
touch "$lab/ready"
cat >/dev/null
