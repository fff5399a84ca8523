package start

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"launch/envgen"
	"launch/internal/exit"
	"launch/preflight"
	"launch/rendezvous"
)

// readInputs refuses input files that cannot be read. A file that only a variable names counts where it
// is used: many shells set the variables of etcdctl.
func (s *Start) readInputs() error {
	j := s.Job
	var more []preflight.Check
	if s.Opt.CheckDir != "" {
		var err error
		if more, err = preflight.CheckDir(s.Opt.CheckDir, preflight.Input{}); err != nil {
			return s.noCheckDir(err)
		}
	}
	for flag, ids := range map[string][]string{"skip": s.Opt.Skip, "only": s.Opt.Only} {
		if e, unknown := errors.AsType[*preflight.UnknownError](preflight.Options{Skip: ids,
			More: more}.Known(s.Checks.Named(), envgen.LintIDs())); unknown {
			return s.noCheck(flag, ids, e)
		}
	}
	if err := s.TryOutputs(); err != nil {
		return err
	}
	code := exit.Config
	if slices.ContainsFunc([]string{"store-ca", "store-cert", "store-key"},
		func(name string) bool { return s.Opt.Given[name] }) {
		code = exit.Usage
	} else if j.Store.V.Embedded || len(j.Store.V.Endpoints) == 0 {
		return nil
	}
	for _, look := range []struct {
		access rendezvous.Access
		names  []string
	}{
		{rendezvous.Access{CA: s.Opt.Access.CA}, []string{s.named("store-ca", "ETCDCTL_CACERT")}},
		{rendezvous.Access{Cert: s.Opt.Access.Cert, Key: s.Opt.Access.Key},
			[]string{s.named("store-cert", "ETCDCTL_CERT"), s.named("store-key", "ETCDCTL_KEY")}},
	} {
		if _, err := look.access.Config(); err != nil {
			return exit.Errorf(code, "%s: %v", strings.Join(look.names, ", "), err).
				Do("name files on this node that this user can read, as for etcdctl: --store-ca FILE; --store-cert FILE " +
					"--store-key FILE")
		}
	}
	return nil
}

// named returns what set one of these flags.
func (s *Start) named(flag, etcdctl string) string {
	if os.Getenv(Variable(flag)) == "" && !s.Opt.Given[flag] && os.Getenv(etcdctl) != "" {
		return etcdctl
	}
	return s.Opt.From(flag)
}

// TryOutputs refuses output files that cannot be written, before any work is done.
func (s *Start) TryOutputs() error {
	for flag, file := range map[string]string{"textfile": s.Opt.Textfile, "html": s.Opt.HTML, "history": s.Opt.History} {
		if err := s.TryOutput(flag, file); err != nil {
			return err
		}
	}
	return nil
}

// TryOutput refuses the file of a flag if it cannot be written.
func (s *Start) TryOutput(flag, file string) error {
	if err := writable(file); err != nil {
		return exit.CannotWrite(s.Opt.From(flag), file, err)
	}
	return nil
}

// writable returns why a file cannot be made or written to; "" can.
func writable(file string) error {
	info, err := os.Stat(file)
	switch {
	case file == "":
		return nil
	case err != nil:
		return unix.Access(filepath.Dir(file), unix.W_OK|unix.X_OK)
	case info.IsDir():
		return unix.EISDIR
	}
	return unix.Access(file, unix.W_OK)
}

// noCheck returns the error for an ID that no check has. Its hint is the corrected list.
func (s *Start) noCheck(flag string, ids []string, e *preflight.UnknownError) error {
	meant := strings.Join(ids, ",")
	if e.Meant != "" {
		meant = strings.ReplaceAll(meant, e.ID, e.Meant)
	} else {
		meant = strings.Trim(strings.ReplaceAll(","+meant+",", ","+e.ID+",", ","), ",")
	}
	out := exit.Errorf(exit.Usage, "%s: %v", s.Opt.From(flag), e).Do("--%s %s", flag, meant)
	if meant == "" {
		out.Fix = "launch check   # prints the checks of a node"
	}
	return out
}
