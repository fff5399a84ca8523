package scene

import "testing"

func TestAReadThatIsDeniedSaysWhatHelps(t *testing.T) {
	before := mayTrace
	t.Cleanup(func() { mayTrace = before })
	for _, c := range []struct {
		reader, owner int
		traces        bool
		why, fix      string
	}{
		{0, 0, false, "root has no CAP_SYS_PTRACE here", "run it outside of the container, or with --cap-add SYS_PTRACE"},
		{0, 1000, false, "root has no CAP_SYS_PTRACE here", "run it outside of the container, or with --cap-add SYS_PTRACE"},
		{0, 1000, true, "it is elsewhere", "run it outside of the container"},
		{1000, 0, false, "it is a process of user 0", "run it as user 0 or as root"},
	} {
		mayTrace = func() bool { return c.traces }
		if why, fix := (&gaps{user: c.reader}).denied(c.owner, "it is elsewhere"); why != c.why || fix != c.fix {
			t.Errorf("user %d of %d, traces %t: %q, %q", c.reader, c.owner, c.traces, why, fix)
		}
	}
}

func TestAPythonThatCannotBeReadIsAGap(t *testing.T) {
	g := &gaps{}
	other := &table{gaps: g, procs: map[int]*seen{7: {pid: 7, stat: stat{comm: "python3"}}, 8: {pid: 8}}}
	for _, p := range other.procs {
		p.stuck.Store(true)
	}
	other.unread()
	if got := g.result(); len(got) != 1 || got[0].What != "command line and environment of pid 7" {
		t.Errorf("%+v", got)
	}
}
