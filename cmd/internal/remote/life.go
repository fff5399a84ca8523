package remote

import "time"

// A head whose network is lost ends no connection, and sshd notices that after hours, or never. So a shell that has
// something to remove, or a command that runs, ends once its input has been silent for long.

// lifeEvery is how often a shell gets a line from this process. The script below has the rest: 120 pauses of 1 s
// without a line end it, and long pauses where an input is on its way, in which there is no line.
const lifeEvery = 10 * time.Second

// long is how many pauses the longest copy may take: hosts_check.go of package start gives it 16 minutes.
const long = 1000

// lifeLine is that line.
const lifeLine = "launch_life\n"

// atEnd makes the shell end what runs in the background, and then what AtEnd says. launch_life starts the guard once
// there is something to end or to remove, and with new values starts it again. A shell that waits for a line handles no
// signal, so the guard ends it by SIGKILL, after it has done the work. Until the guard has its own trap it ignores
// SIGUSR1: it has just begun to count. It is ended by SIGKILL, which no moment of its start can lose.
//
// No process is ended by a number that another one may have by now. The shell is the parent of its guard, also in the
// guard's $$, and launch_run is known by the time of its start (proc_pid_stat(5)). A guard whose shell has ended does
// the work at its next pause.
const atEnd = `trap 'launch_unguard
launch_stop; eval "$` + AtEnd + `"' EXIT
trap 'exit 1' HUP INT TERM PIPE
launch_life() {
	[ -n "$` + AtEnd + `$launch_run" ] || return 0
	if [ "$launch_guarded" = "$` + AtEnd + ` $launch_run $launch_long" ]; then
		kill -USR1 $launch_guard 2>/dev/null
		return 0
	fi
	launch_unguard
	[ "$launch_known" = "$launch_run" ] || { launch_stat $launch_run; launch_known=$launch_run launch_born=$launch_at; }
	launch_guarded="$` + AtEnd + ` $launch_run $launch_long"
	trap '' USR1
	launch_silence </dev/null >/dev/null 2>&1 &
	launch_guard=$!
	trap - USR1
}
launch_unguard() { [ -z "$launch_guard" ] || { kill -KILL $launch_guard; wait $launch_guard; } 2>/dev/null; }
launch_stat() {
	launch_parent= launch_at=
	read -r launch_line <"/proc/$1/stat" || return 0
	set -- ${launch_line##*) }
	launch_parent=$2
	shift 19
	launch_at=$1
} 2>/dev/null
launch_stop() {
	[ -n "$launch_run" ] && launch_stat $launch_run || return 0
	[ "$launch_known" = "$launch_run" ] && [ "$launch_at" != "$launch_born" ] || kill $launch_run 2>/dev/null
}
launch_alone() { launch_stat self; [ -n "$launch_parent" ] && [ "$launch_parent" != $$ ]; }
launch_silence() {
	trap - EXIT
	launch_n=0 launch_most=${launch_long:-${launch_pauses:-120}}
	trap 'launch_n=0' USR1
	while [ $launch_n -lt $launch_most ] && ! launch_alone; do
		launch_n=$((launch_n + 1))
		sleep ${launch_pause:-1} &
		launch_sleep=$!
		while kill -0 $launch_sleep 2>/dev/null; do wait $launch_sleep; done
	done
	launch_stop
	eval "$` + AtEnd + `"
	launch_alone || kill -KILL $$ 2>/dev/null
}`

// showLife sends the shell a line now and then until it has ended.
func (s *Session) showLife() {
	tick := time.NewTicker(lifeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !s.writing.TryLock() {
				continue // what is being written counts, too
			}
			if !s.feeding.Load() {
				_, _ = s.in.Write([]byte(lifeLine))
			}
			s.writing.Unlock()
		case <-s.over:
			return
		}
	}
}
