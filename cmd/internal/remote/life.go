package remote

import "time"

// A head whose network is lost ends no connection, and sshd notices that after hours, or never. So a shell that has
// something to remove, or a command that runs, ends once its input has been silent for long.

// lifeEvery is how often a shell hears that this process is there. The scripts below have the rest: 12 pauses of 10 s
// without a line end it, and 60 of them where an input is on its way, in which there is no line.
const lifeEvery = 10 * time.Second

// lifeLine is the line that a shell hears, and longLine the one before an input.
const (
	lifeLine = "launch_life\n"
	longLine = "[ -z \"$launch_guard\" ] || kill -USR2 $launch_guard 2>/dev/null\n"
)

// atEnd makes the shell end what runs in the background, and then what AtEnd says. launch_life starts the guard once
// there is something to end or to remove, and with new values starts it again. A shell that waits for a line handles no
// signal, so the guard ends it by SIGKILL, after it has done the work. Until it has its own traps it ignores the
// signals that it hears, and it is ended by SIGKILL, which no moment of its start can lose.
const atEnd = `trap 'launch_unguard
[ -z "$launch_run" ] || kill $launch_run 2>/dev/null; eval "$` + AtEnd + `"' EXIT
trap 'exit 1' HUP INT TERM PIPE
launch_life() {
	[ -n "$` + AtEnd + `$launch_run" ] || return 0
	if [ "$launch_guarded" = "$` + AtEnd + ` $launch_run" ]; then kill -USR1 $launch_guard 2>/dev/null; return 0; fi
	launch_unguard
	launch_guarded="$` + AtEnd + ` $launch_run"
	trap '' USR1 USR2
	launch_silence </dev/null >/dev/null 2>&1 &
	launch_guard=$!
	trap - USR1 USR2
}
launch_unguard() { [ -z "$launch_guard" ] || { kill -KILL $launch_guard; wait $launch_guard; } 2>/dev/null; }
launch_silence() {
	trap - EXIT
	trap 'launch_n=0 launch_most=${launch_pauses:-12}' USR1
	trap 'launch_n=0 launch_most=60' USR2
	launch_n=0 launch_most=${launch_pauses:-12}
	while [ $launch_n -lt $launch_most ]; do
		launch_n=$((launch_n + 1))
		sleep ${launch_pause:-10} &
		launch_sleep=$!
		while kill -0 $launch_sleep 2>/dev/null; do wait $launch_sleep; done
	done
	[ -z "$launch_run" ] || kill $launch_run 2>/dev/null
	eval "$` + AtEnd + `"
	kill -KILL $$ 2>/dev/null
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
