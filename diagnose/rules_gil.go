package diagnose

import (
	"fmt"
	"strings"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

// withoutGIL recognises a rank whose main thread waits for Python's lock, which a thread that sleeps holds. A slow read
// ends; one of a pipe that only threads of the same process can write to does not.
func (v *view) withoutGIL(s *seat) (claim, bool) {
	h := s.proc.GIL
	if h == nil || works(s.proc.Moved, s.node.scene.Span) {
		return claim{}, false
	}
	what := fmt.Sprintf("does not go on: its thread %s holds Python's global lock (GIL) at %s, while it waits in native "+
		"code%s", h.Thread, h.At, callWords(h))
	sure := verdict.Certain
	if !h.Own { // what it waits for may arrive
		sure = verdict.Likely
		if h.Over > 0 {
			what += ", since " + ago(h.Over)
		}
		what += "; it goes on once that has ended"
	}
	c := about("rank.gil", sure, s, what)
	if !h.Own {
		c.Idle = h.Over
	}
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
