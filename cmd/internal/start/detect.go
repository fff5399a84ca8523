package start

import (
	"context"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"launch/envgen"
	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine"
	"launch/fabric/software"
	"launch/fabric/verbs"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/outfile"
	"launch/preflight"
)

// detect fills in the facts of this node, and what the plan is computed from.
func (s *Start) detect(ctx context.Context) error {
	s.Node = s.DetectNode(ctx)
	s.Input = s.planInput(ctx)
	return nil
}

// DetectNode returns the facts of this node, or of the recorded one.
func (s *Start) DetectNode(ctx context.Context) fabric.Node {
	if s.Machine != nil {
		return s.Machine.Detect(ctx)
	}
	return s.DetectLive(ctx, fabric.Live())
}

// DetectLive returns the facts of this node.
func (s *Start) DetectLive(ctx context.Context, roots fabric.Roots) fabric.Node {
	in := handoff.Inherited()
	return fabric.Detect(ctx, roots, fabric.Options{
		Resolve: (s.Job.Several() || s.Job.Line.Hydra()) && !s.Opt.DryRun,
		GPU:     func(ctx context.Context) gpu.Facts { return fabric.AskGPU(ctx, roots, gpu.Question{}) },
		Verbs:   func(ctx context.Context) verbs.Facts { return fabric.AskVerbs(ctx, roots) },
		Nofile:  in.Nofile, NofileKnown: in.Known,
		Names:    storeNames(s.Job.Store.V),
		Software: s.software(),
	})
}

// Recorded returns the facts of this node, and writes them to the file of --record.
func (s *Start) Recorded(ctx context.Context) (fabric.Node, error) {
	file := s.Opt.Record
	if file == "" {
		return s.DetectNode(ctx), nil
	}
	rec := machine.NewRecorder(fabric.Live())
	n := s.DetectLive(ctx, rec.Roots())
	data, err := rec.File(n)
	if err == nil {
		err = outfile.Write(file, data)
	}
	if err != nil {
		return n, exit.Errorf(exit.Usage, "record this node: %v", err).
			Do("--record names a file in a directory that can be written")
	}
	s.UI.Note("recorded in %s, with names, addresses, GUIDs and UUIDs replaced; launch fabric --from %s prints it",
		file, file)
	return n, nil
}

// storeNames returns the hosts of the store, an external one's too.
func storeNames(s job.Store) []string {
	names := []string{s.Host}
	for _, e := range s.Endpoints {
		if u, err := url.Parse(e); err == nil && u.Hostname() != "" {
			names = append(names, u.Hostname())
		}
	}
	return names
}

// software returns what finds the software that the command loads; nil: no other node compares it, or
// mpirun loads it elsewhere.
func (s *Start) software() func(context.Context) software.Facts {
	if !s.Job.Several() && !s.Opt.DryRun || s.Job.Line.Kind == launcher.Mpirun {
		return nil
	}
	files := s.here()
	return func(ctx context.Context) software.Facts { return software.Detect(ctx, files, loaded(s.Job)) }
}

// loaded returns the job's command as software.Detect takes it; without a command, torchrun.
func loaded(j job.Job) software.Command {
	l := j.Line
	cmd := software.Command{Program: string(launcher.Torchrun), Env: settled(j), Home: homeDir()}
	cmd.Dir, _ = os.Getwd()
	if l.Program < len(l.Argv) && !l.Inside { // a script that calls torchrun inside finds it in PATH
		cmd.Before, cmd.Program = l.Argv[:l.Program], l.Argv[l.Program]
	}
	// uv's: a module follows
	if n := len(cmd.Before); n > 0 && (cmd.Before[n-1] == "-m" || cmd.Before[n-1] == "--module") {
		cmd.Program = "python"
	}
	return cmd
}

// settled returns the environment of the command, and the variables that NCCL reads from its files.
func settled(j job.Job) []string {
	env := j.Line.Environ(handoff.Environ())
	var files []string
	for _, d := range j.Decided {
		if d.From != "environment" {
			files = append(files, d.Name+"="+d.Value)
		}
	}
	return append(files, env...) // the last of a name counts
}

// planInput returns what a plan is computed from, except for the world.
func (s *Start) planInput(ctx context.Context) envgen.Input {
	j := s.Job
	in := envgen.Input{Node: s.Node, Decided: j.Decided,
		World:  envgen.World{Nodes: j.Nodes.V, Job: j.ID.V, Store: s.openStore()},
		Mpirun: j.Line.Kind == launcher.Mpirun, MPI: j.MPI, Uses: j.Uses}
	in.Torch = j.Line.Kind.Torch() || python(j.Line)
	in.Script = j.Line.Inside || shell(j.Line)
	if in.Tasks = j.Tasks.LocalSize > 1; !in.Tasks && s.Node.GPUs.Present {
		in.Devices = devices(preflight.VisibleGPUs(preflight.Input{Job: j, Node: s.Node, Env: os.LookupEnv}))
	}
	if in.Mpirun {
		in.World = s.mpirunWorld(ctx)
	}
	in.Files = readFiles(s.root(), envgen.Paths(in))
	return in
}

// devices returns how many GPUs a process of the command may use; 0 where a slice of one makes that unclear.
func devices(s preflight.Visible) int {
	sliced := slices.ContainsFunc(s.Devices, func(d gpu.GPU) bool { return d.MIG == "on" || d.Err != "" })
	if s.Others > 0 || sliced {
		return 0
	}
	return s.Count()
}

// openStore returns the URLs of the store, if any program may use it: a store of launch's own has no keys but
// those of jobs.
func (s *Start) openStore() []string {
	closed := func(url string) bool { return !strings.HasPrefix(url, "http://") }
	st := s.Job.Store.V
	if st.Embedded || s.Opt.Access.User != "" || slices.ContainsFunc(st.Endpoints, closed) {
		return nil
	}
	return st.Endpoints
}

// shell reports whether the program is a shell, or a script for one.
func shell(l launcher.Line) bool {
	if l.Kind != launcher.Program || l.Program >= len(l.Argv) {
		return false
	}
	base := filepath.Base(l.Argv[l.Program])
	return strings.HasSuffix(base, ".sh") || slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, base)
}

// python reports whether a plain program is a Python one, which may use Gloo.
func python(l launcher.Line) bool {
	for _, w := range l.Argv[:min(len(l.Argv), l.Rest+1)] {
		base := w[strings.LastIndexByte(w, '/')+1:]
		if strings.HasPrefix(base, "python") || strings.HasSuffix(base, ".py") {
			return true
		}
	}
	return false
}

// lookUp returns the addresses of a host; a dry run looks into /etc/hosts only.
func (s *Start) lookUp(ctx context.Context, host string) (all []netip.Addr, err error) {
	if !s.Opt.DryRun {
		return systemResolver(ctx, host)
	}
	for _, l := range fabric.HostsLines(fabric.Live(), host) {
		all = append(all, l.Addr)
	}
	return all, nil
}

// mpirunWorld returns the hosts of mpirun's list whose address is known, the one of rank 0 first. A name of this
// machine gets the address by which the others reach it. A recording has no names.
func (s *Start) mpirunWorld(ctx context.Context) envgen.World {
	hosts, n := s.Job.Hosts, s.Node
	w := envgen.World{Nodes: max(len(hosts), 1)}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	own := func(addr netip.Addr) bool { return addr.IsLoopback() || n.IsLocal(addr) }
	for _, h := range hosts {
		addr, err := netip.ParseAddr(h)
		if err != nil && s.Machine == nil {
			var all []netip.Addr
			if all, err = s.lookUp(ctx, h); len(all) > 0 {
				addr = all[0]
			}
		}
		if err != nil || !addr.IsValid() {
			continue
		}
		if w.Peers = append(w.Peers, addr); own(addr) && w.Addr.IsValid() {
			continue
		}
		if r, err := s.routeTo(addr); err == nil {
			w.Addr = r.Src
		}
	}
	for i, addr := range w.Peers {
		if own(addr) && w.Addr.IsValid() {
			w.Peers[i] = w.Addr
		}
	}
	if i := slices.IndexFunc(w.Peers, own); i > 0 && s.Job.Line.HeadFirst() {
		toFront(w.Peers, i)
	}
	return w
}
