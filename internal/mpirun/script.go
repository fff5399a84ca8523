package mpirun

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Ask is what a host is asked, besides what the line says.
type Ask struct {
	Env   []string         // of mpirun, for Hydra's programs
	Calls []netip.AddrPort // where the head listens
	Name  string           // by which Hydra's daemons call
	Token string           // what the head expects of a caller, and answers
	Self  string           // the file of launch on the head
	Hash  string           // its SHA-256
}

// Script returns what a shell on a host runs to answer: lines of a key and values, separated by tabs. What it needs
// beyond POSIX may be missing; then a line is.
func (run Run) Script(a Ask) string {
	var b strings.Builder
	add := func(format string, v ...any) { fmt.Fprintf(&b, format+"\n", v...) }
	add("%s", preamble)
	if len(a.Calls) > 0 {
		add("launch_calls= LAUNCH_CALL=%s; export LAUNCH_CALL", quote(a.Token))
		if a.Name != "" {
			add("launch_call %s %d & launch_calls=$!", quote(a.Name), a.Calls[0].Port())
		}
		for _, c := range a.Calls {
			add(`launch_call %s %d & launch_calls="$launch_calls $!"`, quote(c.Addr().String()), c.Port())
		}
	}
	if run.Per != nil && (run.Per.Of != "node" || run.Per.CPUs > 0) || run.Bind != nil && run.Bind.To != "none" {
		add("%s", countParts)
	}
	add("launch_binary %s %s", quote(a.Self), quote(a.Hash))
	for _, kv := range run.environ(a.Env) {
		name, value, _ := strings.Cut(kv, "=")
		add("%s=%s; export %s", name, quote(value), name)
	}
	if p := run.Prefix; p != "" && path.Base(run.Daemon) == "prted" {
		add("PRTE_PREFIX=%s; export PRTE_PREFIX", quote(p)) // as mpirun does; a moved one finds none of its files else
	}
	if p := run.Prefix; p != "" {
		add(`PATH=%[1]s/bin:$PATH; LD_LIBRARY_PATH=%[1]s/lib:$LD_LIBRARY_PATH; export PATH LD_LIBRARY_PATH`, quote(p))
	}
	if run.Daemon != "" {
		add("launch_daemon %s", quote(run.Daemon))
	}
	if !run.Forward {
		add("%s", parameterFiles)
	}
	if run.Dir != "" {
		add(`if cd %s 2>/dev/null; then say dir yes; else cd "$HOME" 2>/dev/null; fi`, quote(run.Dir))
	}
	if run.Searched != "" {
		add("launch_dirs=%s", quote(run.Searched))
	}
	for _, p := range run.Programs {
		add("launch_program %s", quote(p))
	}
	for _, p := range run.Scripts {
		add("launch_script %s", quote(p))
	}
	if len(a.Calls) > 0 {
		add("wait $launch_calls") // a bare wait would wait for all that the shell has in the background
	}
	// More than a packet, in one write: where long packets from the host get lost, the rest arrives without it.
	add("x=xxxxxxxxxx; x=$x$x$x$x; x=$x$x$x$x$x$x$x$x$x$x; say long $x$x$x$x$x$x$x$x$x$x")
	add(`say clock "` + "`date +%%s.%%N`" + `"`)
	return b.String()
}

// environ returns what of mpirun's environment matters for finding a program there.
func (run Run) environ(env []string) (out []string) {
	if !run.Forward {
		return run.Exports
	}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		for _, kv := range slices.Backward(env) {
			if strings.HasPrefix(kv, name+"=") {
				out = append(out, kv)
				break
			}
		}
	}
	return out
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// countParts counts the parts of the host. It starts no program. Lists of processors in topology and node are files
// that a shell cannot read byte by byte (Linux 6.18), so it counts cores by their numbers, and NUMA nodes by their
// links.
const countParts = `(
	set +f
	all=" " hwthread=0 core=0 l1cache=0 l2cache=0 l3cache=0 numa=0 package=0
	one() { case $all in *" $1:$2 "*) ;; *) all="$all$1:$2 "; eval "$1=\$(($1 + 1))";; esac; }
	get() { [ -r "$1" ] && read -r p < "$1"; }
	for c in /sys/devices/system/cpu/cpu[0-9]*; do
		get "$c/topology/physical_package_id" || continue
		hwthread=$((hwthread + 1)) k=
		one package "$p"
		for f in physical_package_id die_id cluster_id core_id; do get "$c/topology/$f" && k="$k,$p"; done
		one core "$k"
		for d in "$c"/cache/index[0-9]*; do
			get "$d/level" && l=$p && get "$d/type" && [ "$p" != Instruction ] && get "$d/shared_cpu_list" || continue
			case $l in [123]) one "l${l}cache" "$p";; esac
		done
	done
	for d in /sys/devices/system/node/node[0-9]*/cpu[0-9]*; do [ ! -e "$d" ] || one numa "${d%/*}"; done
	caches="l3cache $l3cache l2cache $l2cache l1cache $l1cache"
	say parts "package $package numa $numa $caches core $core hwthread $hwthread"
)`

// preamble has the functions. The shell ends with what launch_at_end says, as package remote has it. Each answer is one
// write, so that calls in the background do not mix. To start a program costs more than all that the shell does without
// one: unquoted arguments become one line in words, which starts no program.
const preamble = `set -f
say() { printf '%s\t%s\n' "$1" "$2"; }
words() { k=$1; shift; printf '%s\t%.2000s\n' "$k" "$*"; }
within() { if command -v timeout >/dev/null 2>&1; then timeout 4 "$@"; else "$@"; fi; }
launch_hash() { h=` + "`sha256sum < \"$1\" 2>/dev/null`" + `; h=${h%% *}; }
# Neither OMP_NUM_THREADS nor a limit of time counts, by which nproc says less than Open MPI sees.
launch_cores() {
	s=/proc/self/status o=/sys/devices/system/cpu/online
	if ! { [ -r $s ] && [ -r $o ]; }; then
		unset OMP_NUM_THREADS OMP_THREAD_LIMIT
		nproc 2>/dev/null
		return
	fi
	while read -r k v && [ "$k" != Cpus_allowed_list: ]; do :; done < $s
	read -r o < $o
	least= IFS=,
	for list in "$v" "$o"; do # of the first, some may be off
		n=0
		for r in $list; do n=$((n + ${r#*-} - ${r%-*} + 1)); done
		[ "${least:-$n}" -lt $n ] || least=$n
	done
	echo "$least"
}
launch_binary() {
	[ ! -x "$1" ] || launch_hash "$1"
	if [ -x "$1" ] && [ "$h" = "$2" ]; then say self "$1"; return; fi
	for z in zstd gzip; do command -v $z >/dev/null 2>&1 && { say unpacks $z; break; }; done
	for d in "$TMPDIR" /tmp /var/tmp /dev/shm "$HOME"; do
		[ -n "$d" ] && [ -d "$d" ] && [ -w "$d" ] || continue
		t=` + "`mktemp -d \"$d/launch-XXXXXXXXXX\" 2>/dev/null`" + ` || continue
		launch_at_end='rm -rf "$t"'
		printf '#!/bin/sh\nexit 0\n' > "$t/try" && chmod 700 "$t/try" && "$t/try" 2>/dev/null && { say tmp "$t"; return; }
		launch_mount "$t/try"
		say noexec "$d	$m"
		rm -rf "$t"
		launch_at_end=
	done
}
launch_mount() {
	m= o= t0=` + "`readlink -f \"$1\" 2>/dev/null`" + `
	while read -r x at x opts x; do
		case $t0 in "${at%/}"/*) [ ${#at} -lt ${#m} ] || m=$at o=$opts;; esac
	done < /proc/self/mounts
	case ,$o, in *,noexec,*) ;; *) m=;; esac
}
launch_denied() {
	IFS=:
	set -- "$1" $PATH
	unset IFS
	case $1 in */*) set -- "$1" "${1%/*}";; esac
	k=${1##*/}
	shift
	for d; do
		[ -f "$d/$k" ] || continue
		launch_mount "$d/$k"
		say denied "$d/$k	$m"
		return
	done
}
launch_room() (
	case $1 in /dev/shm) [ -d "$1" ] || exit 0;; esac
	trap 'exit 1' HUP INT TERM PIPE
	r=` + "`mktemp \"$1/launch-XXXXXXXXXX\" 2>&1`" + ` || { words "room	$1" $r; exit; }
	f=$r
	trap 'rm -f "$f"' EXIT
	r=` + "`dd if=/dev/zero of=\"$f\" bs=65536 count=16 2>&1`" + ` ||
		words "room	$1" ` + "`printf '%s\\n' \"$r\" | head -n 1`" + `
)
launch_daemon() {
	p=` + "`command -v \"$1\" 2>/dev/null`" + `
	[ -n "$p" ] && [ -x "$p" ] || { launch_denied "$1"; return; }
	say daemon "$p"
	d=${p%/*} launch_etc=${p%/*/*}/etc
	case $p in
	*/orted) all="$d/orterun $d/mpirun";;
	*/prted) all="$d/prterun $d/prte";;
	*/hydra_*)
		all="$d/mpiexec.hydra $d/mpiexec"
		words numbers ` + "`grep -azxoE '[0-9]+[.][0-9]+([.][0-9]+)*([a-z]+[0-9]*)?' \"$p\" 2>/dev/null |" + `
			tr '\000' ' '` + "`" + `;;
	*) return;;
	esac
	for v in $all; do [ -x "$v" ] && break; done
	[ -x "$v" ] || return
	words version ` + "`within \"$v\" --version 2>&1 </dev/null`" + `
}
launch_program() {
	p=$1
	case $p in */*) ;; *)
		p=` + "`command -v \"$p\" 2>/dev/null`" + `
		for d in $launch_dirs; do [ -n "$p" ] || [ ! -f "$d/$1" ] || p=$d/$1; done;;
	esac
	if [ ! -e "$p" ]; then say program "$1	missing"; return; fi
	if [ ! -f "$p" ] || [ ! -x "$p" ]; then
		launch_mount "$p"
		say program "$1	denied	$p				$m"
		return
	fi
	all=` + "`within ldd \"$p\" 2>/dev/null`" + `
	mpi=
	for w in $all; do case ${w##*/} in libmpi*.so*|libopen-pal*.so*) mpi="$mpi ${w##*/}";; esac; done
	lost=
	case $all in *'not found'*)
		lost=` + "`printf '%s\\n' \"$all\" | grep 'not found' | head -n 4 | sed 's/ *=>.*//'`" + `;;
	esac
	launch_hash "$p"
	words "program	$1	found	$p	$h	$mpi" $lost
}
launch_script() {
	if [ ! -f "$1" ]; then say program "$1	missing"; return; fi
	launch_hash "$1"
	words "program	$1	found	$1	$h	"
}
launch_call() {
	host=$1 port=$2
	if command -v bash >/dev/null 2>&1; then
		r=` + "`within bash --norc -c 'exec 3<>\"/dev/tcp/$0/$1\" && printf \"%s\\n\" \"$LAUNCH_CALL\" >&3 " +
	"&& IFS= read -r -t 3 x <&3 && echo \"$x\"' \"$host\" \"$port\" 2>&1`" + `
	elif command -v python3 >/dev/null 2>&1; then
		r=` + "`within python3 -c 'import os,socket,sys\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])),4)\n" +
	"s.sendall((os.environ[\"LAUNCH_CALL\"]+\"\\n\").encode())\nprint(s.recv(200).decode())' \"$host\" \"$port\" 2>&1 " +
	"| tail -n 1`" + `
	else
		r=none
	fi
	words "call	$host" $r
}
LC_ALL=C; export LC_ALL
say path "$PATH"
say library_path "$LD_LIBRARY_PATH"
set -- ` + "`uname -n -m`" + `
say host "$1"
say arch "$2"
boot=
[ ! -r /proc/sys/kernel/random/boot_id ] || read -r boot < /proc/sys/kernel/random/boot_id
ns=/proc/self/ns
words machine $boot ` + "`{ readlink $ns/net $ns/uts $ns/pid || " +
	"{ readlink $ns/net; readlink $ns/uts; readlink $ns/pid; }; } 2>/dev/null`" + `
say memlock "` + "`ulimit -l 2>/dev/null`" + `"
say nofile "` + "`ulimit -n 2>/dev/null`" + `"
say cores "` + "`launch_cores`" + `"
words rdma ` + "`ls /sys/class/infiniband 2>/dev/null`" + `
words addresses ` + "`ip -o addr show up 2>/dev/null | while read -r i name kind addr rest; do " +
	"case $addr in fe80:*|127.*|::1/*) ;; *) echo \"$name $addr\";; esac; done`" + `
launch_room "${TMPDIR:-/tmp}"
launch_room /dev/shm`
