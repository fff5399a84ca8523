package diagnose

import (
	"fmt"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// withoutGIL recognises a rank whose main thread waits for Python's lock, which a thread that sleeps holds. It is never
// certain: a slow read ends, and a native thread can write to the other end of a pipe without the lock.
func (v *view) withoutGIL(s *seat) (claim, bool) {
	h := s.proc.GIL
	if h == nil || works(s.proc.Moved, s.node.scene.Span) {
		return claim{}, false
	}
	what := fmt.Sprintf("does not go on: its thread %s holds Python's global lock (GIL) at %s, while it waits in native "+
		"code%s", h.Thread, h.At, callWords(h))
	if h.Over > 0 {
		what += ", since " + ago(h.Over)
	}
	c := about("rank.gil", verdict.Likely, s, what+"; it goes on once that has ended")
	c.Idle = h.Over
	return c.see("py-spy", fmt.Sprintf("thread %s has the GIL at %s", h.Thread, h.At)).at(s), true
}

// callWords says what a thread waits for by the file of its system call: " for a pipe (read)".
func callWords(h *scene.Held) string {
	kind, _, _ := strings.Cut(h.On, ":[")
	on := map[string]string{"pipe": "a pipe", "socket": "a connection"}[kind]
	if strings.HasPrefix(h.On, "/") {
		on = h.On
	}
	switch {
	case h.Call == "futex":
		return " for a lock"
	case h.Call == "":
		return ""
	case on == "":
		return " (" + h.Call + ")"
	}
	return " for " + on + " (" + h.Call + ")"
}
