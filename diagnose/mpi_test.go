package diagnose

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
)

const mpiBack = "10.0.0.1:5999"

// headScene is the host of mpirun, whose ssh to h1 and h2 run; from h2 a daemon has connected.
func headScene() scene.Scene {
	at := netip.MustParseAddr("10.0.0.1")
	ssh := func(pid int, host, addr string) (scene.Proc, scene.Socket) {
		return scene.Proc{PID: pid, Parent: 10, Role: scene.MPIRun, Comm: "ssh", State: "S", Started: time.Unix(1000, 0),
				Argv: []string{"ssh", host}, MPI: &scene.MPI{Part: scene.MPIStarter, Host: host, Back: mpiBack}},
			scene.Socket{PID: pid, State: "established", Local: netip.AddrPortFrom(at, uint16(40000+pid)),
				Remote: netip.MustParseAddrPort(addr + ":22"), Info: &scene.Info{Received: 3437}}
	}
	s := scene.Scene{Host: "h0", Boot: "b", Span: 3 * time.Second, Addrs: []netip.Addr{at}, Procs: []scene.Proc{{PID: 10,
		Role: scene.MPIRun, Comm: "mpirun", State: "S", MPI: &scene.MPI{Part: scene.MPIHead}}}}
	for i, host := range []string{"h1", "h2"} {
		p, k := ssh(11+i, host, "10.0.0."+string(rune('2'+i)))
		s.Procs, s.Sockets = append(s.Procs, p), append(s.Sockets, k)
	}
	s.Sockets = append(s.Sockets, called("10.0.0.3"))
	return s
}

// called is mpirun's end of a daemon's connection.
func called(from string) scene.Socket {
	return scene.Socket{PID: 10, State: "established", Local: netip.MustParseAddrPort(mpiBack),
		Remote: netip.MustParseAddrPort(from + ":41000"), Info: &scene.Info{Received: 500}}
}

// daemonScene is a host with a daemon, whose connection to mpirun is in a state.
func daemonScene(host, addr, state string, retrans uint32) scene.Scene {
	a := netip.MustParseAddr(addr)
	return scene.Scene{Host: host, Boot: "b" + host, Span: 3 * time.Second, Addrs: []netip.Addr{a},
		Procs: []scene.Proc{{PID: 20, Role: scene.MPIRun, Comm: "orted", State: "S", Started: time.Unix(1001, 0),
			MPI: &scene.MPI{Part: scene.MPIDaemon, Back: mpiBack}}},
		Sockets: []scene.Socket{{PID: 20, State: state, Local: netip.AddrPortFrom(a, 41000),
			Remote: netip.MustParseAddrPort(mpiBack), Info: &scene.Info{Retrans: retrans}}}}
}

func TestWhomMPIRunWaitsFor(t *testing.T) {
	change := func(f func(*scene.Scene)) scene.Scene { s := headScene(); f(&s); return s }
	shell := daemonScene("h1", "10.0.0.2", "", 0)
	shell.Procs[0].Comm, shell.Procs[0].MPI.Part, shell.Sockets = "bash", scene.MPIShell, nil
	shell.Procs = append(shell.Procs, scene.Proc{PID: 21, Parent: 20, Role: scene.Wrapper, Comm: "ldconfig"})
	stopped := daemonScene("h1", "10.0.0.2", "established", 0)
	stopped.Procs[0].State = "T"
	for _, c := range []struct {
		name   string
		scenes []scene.Scene
		state  verdict.State
		cause  string
		nodes  []string
		sure   verdict.Sure
	}{
		{"from the head", []scene.Scene{headScene()}, verdict.Hung, "mpi.daemon", []string{"h1"}, verdict.Certain},
		{"way back", []scene.Scene{headScene(), daemonScene("h1", "10.0.0.2", "syn-sent", 5)}, verdict.Hung, "mpi.callback",
			[]string{"h1"}, verdict.Certain},
		{"way back, from the daemon", []scene.Scene{daemonScene("h1", "10.0.0.2", "syn-sent", 5)}, verdict.Hung,
			"mpi.callback", []string{"h1"}, verdict.Certain},
		{"called from another address", []scene.Scene{change(func(s *scene.Scene) {
			s.Sockets[2] = called("192.168.0.9")
		})}, verdict.Hung, "mpi.daemon", []string{"h1", "h2"}, verdict.Likely},
		{"called from another address, and one is seen", []scene.Scene{change(func(s *scene.Scene) {
			s.Sockets[2] = called("192.168.0.9")
		}), daemonScene("h2", "10.0.0.3", "established", 0)}, verdict.Hung, "mpi.daemon", []string{"h1"}, verdict.Likely},
		{"stopped ssh", []scene.Scene{change(func(s *scene.Scene) { s.Procs[1].State = "T" })}, verdict.Hung,
			"mpi.ssh-prompt", []string{"h1"}, verdict.Likely},
		{"no answer to ssh", []scene.Scene{change(func(s *scene.Scene) {
			s.Sockets[0].State, s.Sockets[0].Info = "syn-sent", &scene.Info{Retrans: 3}
		})}, verdict.Hung, "mpi.ssh-unreachable", []string{"h1"}, verdict.Certain},
		{"silent sshd", []scene.Scene{change(func(s *scene.Scene) {
			s.Sockets[0].Info = &scene.Info{Sent: 21, LastSent: 5 * time.Second}
		})}, verdict.Hung, "mpi.ssh-unreachable", []string{"h1"}, verdict.Certain},
		{"login shell", []scene.Scene{headScene(), shell}, verdict.Hung, "mpi.shell", []string{"h1"}, verdict.Likely},
		{"stopped daemon", []scene.Scene{headScene(), stopped}, verdict.Hung, "mpi.stopped", []string{"h1"}, verdict.Certain},
		{"stopped mpirun", []scene.Scene{change(func(s *scene.Scene) { s.Procs[0].State = "T" })}, verdict.Hung,
			"mpi.stopped", []string{"h0"}, verdict.Certain},
	} {
		a := Judge(c.scenes)
		if len(a) != 1 || a[0].State != c.state || len(a[0].Why) == 0 || a[0].Why[0].Cause != c.cause ||
			!slices.Equal(a[0].Why[0].Nodes, c.nodes) || a[0].Why[0].Sure != c.sure {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

// TestAJobOfMPIThatRunsIsNotCalledHung: all daemons have called back, also from addresses that ssh does not have.
func TestAJobOfMPIThatRunsIsNotCalledHung(t *testing.T) {
	s := headScene()
	s.Sockets = append(s.Sockets, called("192.168.0.9"))
	for i, cpu := range []time.Duration{3 * time.Second, 0} {
		s.Procs = append(s.Procs, scene.Proc{PID: 30 + i, Parent: 10, Role: scene.Rank, Comm: "ring", State: "S",
			Env: map[string]string{"OMPI_COMM_WORLD_RANK": itoa(i), "OMPI_COMM_WORLD_SIZE": "2"}, Moved: scene.Moved{CPU: cpu}})
	}
	a := Judge([]scene.Scene{s})
	if len(a) != 1 || a[0].State != verdict.Running || len(a[0].Why) > 0 || len(a[0].Ranks) != 2 ||
		!strings.Contains(a[0].Job, "mpirun") {
		t.Errorf("%+v", a)
	}
	s.Procs[4].State = "T"
	if a := Judge([]scene.Scene{s}); len(a) != 1 || len(a[0].Why) != 1 || a[0].Why[0].Cause != "rank.stopped" ||
		!slices.Equal(a[0].Why[0].Ranks, []int{1}) {
		t.Errorf("%+v", a)
	}
}
