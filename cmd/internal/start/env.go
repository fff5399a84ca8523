package start

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"

	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// Env is launch env: it prints the plan or its reasons, and returns the exit status.
func (s *Start) Env(ctx context.Context, argv []string) int {
	s.argv = launcher.Assigned(argv)
	return s.run(ctx, (*Start).format, (*Start).resolve, (*Start).detect, (*Start).printEnv)
}

// format refuses an unknown --format.
func (s *Start) format(context.Context) error {
	o := s.Opt
	if o.Format == "" && !o.Given["format"] { // a variable that is empty is not set
		o.Format = envgen.Formats()[0]
	}
	if !slices.Contains(envgen.Formats(), o.Format) {
		return exit.Errorf(exit.Usage, "%s is one of %s, not %q", o.From("format"), strings.Join(envgen.Formats(), ", "),
			o.Format).
			Do("eval \"$(launch env)\"")
	}
	return nil
}

// printEnv prints the plan of this node, or the reasons for it.
func (s *Start) printEnv(ctx context.Context) error {
	in := s.torchInput()
	if s.Job.Several() && s.Machine != nil {
		a, err := s.recordedAddr()
		if err != nil {
			return err
		}
		in.World.Addr = a
	} else if s.Job.Several() {
		p, err := s.find(ctx, firstLook)
		if err != nil {
			return err
		}
		in.World.Addr = p.Addr
	}
	s.UI.Findings(s.Job.Notes, false)
	s.UI.Findings(envgen.Lint(in), false)
	if s.Opt.Explain {
		s.UI.Explain(envgen.Explain(in))
		return nil
	}
	return s.printPlan(in)
}

// torchInput returns the input of the plan; without a command the plan is for torch.
func (s *Start) torchInput() envgen.Input {
	in := s.Input
	in.Torch = in.Torch || len(s.argv) == 0
	return in
}

func (s *Start) printPlan(in envgen.Input) error {
	j := s.Job
	plan := envgen.Make(in)
	why := ""
	if len(plan) == 0 {
		why = "the defaults of the libraries are right here"
		if !j.Several() && j.Line.Kind != launcher.Mpirun {
			why = "one node needs no variables; --nnodes N --store HOST plans for several"
		}
	}
	if s.UI.JSON() {
		s.emitPlan(plan, why)
		return nil
	}
	format := s.Opt.Format
	if format == "mpirun" && j.Line.Hydra() { // the command line is the better source
		format = "hydra"
	}
	text, err := envgen.Render(format, plan)
	if err != nil {
		return err
	}
	s.UI.Print(text)
	if format == "mpirun" || format == "hydra" {
		if names := perNode(in, plan); len(names) > 0 {
			s.UI.Note("left out, since the value differs from node to node: %s; to set it on each node: "+
				"mpirun … launch PROGRAM", strings.Join(names, ", "))
			return nil
		}
	}
	if why != "" {
		s.UI.Note("nothing to set: %s", why)
	}
	return nil
}

// emitPlan prints a plan as JSON lines.
func (s *Start) emitPlan(plan envgen.Plan, why string) {
	for _, v := range plan {
		s.UI.Emit(true, "var", v)
	}
	s.UI.Emit(true, "plan", struct {
		Vars int    `json:"vars"`
		Why  string `json:"why,omitempty"`
	}{len(plan), why})
}

// perNode returns the variables that mpirun must not carry to other nodes.
func perNode(in envgen.Input, plan envgen.Plan) []string {
	var names []string
	for _, v := range plan {
		if v.Scope == setting.Node && !v.Kept {
			names = append(names, v.Name)
		}
	}
	for _, e := range envgen.Explain(in) {
		if e.PerNode {
			names = append(names, e.Name)
		}
	}
	return names
}

// maxFile is larger than any file that a rule reads.
const maxFile = 1 << 20

// readFiles returns the contents of the files that exist; nil: there is no root.
func readFiles(root fs.FS, names []string) map[string]string {
	if root == nil {
		return nil
	}
	files := map[string]string{}
	for _, name := range names {
		f, err := root.Open(strings.TrimPrefix(name, "/"))
		if err != nil {
			continue
		}
		text := ""
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			b, _ := io.ReadAll(io.LimitReader(f, maxFile))
			text = string(b)
		}
		_ = f.Close()
		files[name] = text
	}
	return files
}
