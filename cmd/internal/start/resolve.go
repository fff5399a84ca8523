package start

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/fabric"
	"launch/fabric/machine"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/secret"
)

// Prepare checks the settings before anything is done. has are the flags that this command takes.
func (s *Start) Prepare(has map[string]bool) error {
	if err := s.Opt.Check(has); err != nil {
		return err
	}
	if err := s.replay(); err != nil {
		return err
	}
	if s.Opt.Token = secret.Token(os.Getenv(tokenVariable)); s.Opt.Token == "" || !has["store"] {
		return nil
	}
	if err := s.Opt.Token.Check(); err != nil {
		return exit.Errorf(exit.Config, "LAUNCH_TOKEN: %v", err).
			Do(makeToken)
	}
	return nil
}

// replay reads the machine of --from. As in a dry run nothing starts, and no connection is opened.
func (s *Start) replay() error {
	o := s.Opt
	if o.Recording == "" {
		return nil
	}
	if s.Subcommand == "" && !o.DryRun {
		return exit.Errorf(exit.Usage, "%s %s: launch cannot start on a recorded node", o.From("from"), o.Recording).
			Do("launch --dry-run --from %s COMMAND", o.Recording)
	}
	if o.Record != "" {
		return exit.Errorf(exit.Usage, "--record and --from exclude each other: --record reads this node").
			Do("launch fabric --record FILE")
	}
	data, err := readRecording(o.Recording)
	if err == nil {
		s.Machine, err = machine.Read(data)
	}
	if err != nil {
		return exit.Errorf(exit.Usage, "%s %s: %v", o.From("from"), o.Recording, err).
			Do("launch fabric --record FILE   # on the node in question")
	}
	o.DryRun = true
	return nil
}

// maxRecording bounds a recording, in bytes; the largest that was seen has 0.4 MB.
const maxRecording = 64 << 20

// readRecording reads a file of --from, which may be a pipe.
func readRecording(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecording+1))
	if len(data) > maxRecording {
		return nil, fmt.Errorf("more than %d MB: not a recording", maxRecording>>20)
	}
	return data, err
}

// root returns the files of this machine, or of a recording.
func (s *Start) root() fs.FS {
	if s.Machine != nil {
		return s.Machine.Roots().Root
	}
	return s.here()
}

// here returns this machine's files. It asks each mount that may be dead once.
func (s *Start) here() fs.FS {
	if s.files == nil {
		s.files = fabric.Bounded(os.DirFS("/"))
	}
	return s.files
}

// resolve fills in this node and the job. Tasks of one node fail alike.
func (s *Start) resolve(ctx context.Context) error {
	err := s.ResolveJob(ctx)
	if err != nil && s.Subcommand == "" {
		return s.alike(ctx, s.unrunnable(err))
	}
	return err
}

// unrunnable returns why the command cannot run here, if that is so: of such a line launch understands too little,
// and says that the number of nodes is not set.
func (s *Start) unrunnable(err error) error {
	if Failure(err, nil).Code != exit.Config || s.Machine != nil || len(s.argv) == 0 ||
		job.Known(s.jobInput()).Line.Sealed != "" {
		return err
	}
	if _, lost := lookPath(s.argv[0]); lost != nil {
		return notExecutable(s.argv[0], lost)
	}
	return err
}

// jobInput returns what the job is resolved from.
func (s *Start) jobInput() job.Input {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	return job.Input{
		Subcommand: s.Subcommand, Argv: s.argv, Own: s.Flags, Flags: s.Opt.Flags, Env: handoff.Environ(),
		Root: s.root(), Home: homeDir(), Dir: dir, Hostname: host,
	}
}

// ResolveJob fills in this node's place in the job, and the job.
func (s *Start) ResolveJob(ctx context.Context) error {
	var err error
	s.Job, err = job.Resolve(s.jobInput())
	if err == nil && s.copyHosts(ctx) {
		s.Job, err = job.Resolve(s.jobInput())
	}
	if err == nil {
		s.UI.Know(s.Job.ID.V, -1)
	}
	if s.mixes() {
		s.UI.Mix()
	}
	s.readMpirun()
	if s.waitsByLine() {
		s.Opt.JoinTimeout = time.Duration(s.Job.Wait.V) * time.Second
		s.wait.timeout = s.Opt.JoinTimeout
	}
	s.shareSecret()
	if err == nil && s.Machine == nil {
		err = s.readInputs()
	}
	if at := s.Job.Store.V; s.Opt.Token != "" && s.Job.Several() && !at.Embedded &&
		!strings.HasPrefix(at.Endpoints[0], "https://") {
		s.Pending = append(s.Pending,
			finding.Warnf("LAUNCH_TOKEN protects the side channel between the nodes, not the external store").Named("job.token"))
	}
	s.Job.Notes = slices.Concat(s.Pending, s.Job.Notes)
	if s.Pending = nil; err != nil {
		s.Pending = s.Job.Notes
	}
	return err
}

// mixes reports whether srun or mpirun writes what all nodes print to one place.
func (s *Start) mixes() bool { return s.Job.Several() && (s.Job.Step != "" || s.Job.Tasks.Size > 0) }

// waitsByLine reports whether the join timeout is the one that the line sets for torchrun.
func (s *Start) waitsByLine() bool {
	return s.Job.Wait.Set && !s.Opt.Given["join-timeout"] && os.Getenv(Variable("join-timeout")) == ""
}

// homeDir returns this user's home directory as NCCL finds it: by the password database. Only the file
// is read: a directory service can hang.
func homeDir() string {
	b, _ := os.ReadFile("/etc/passwd")
	uid := strconv.Itoa(os.Getuid())
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 6 && f[2] == uid {
			return f[5]
		}
	}
	return os.Getenv("HOME")
}
