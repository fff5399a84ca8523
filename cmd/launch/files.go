package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"launch/envgen"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/preflight"
	"launch/preflight/checks"
	"launch/rendezvous"
)

// readInputs refuses what was named to be read and cannot be, before anything is
// looked at or waited for. What only variables name counts where it is used:
// etcdctl's stand in the environment of many shells.
func (a *app) readInputs(j job.Job) error {
	var more []preflight.Check
	if a.o.checkDir != "" {
		var err error
		if more, err = preflight.CheckDir(a.o.checkDir, preflight.Input{}); err != nil {
			return a.noCheckDir(err)
		}
	}
	for flag, ids := range map[string][]string{"skip": a.o.skip, "only": a.o.only} {
		if e, unknown := errors.AsType[*preflight.UnknownError](preflight.Options{Skip: ids, More: more}.Known(checks.Named(), envgen.LintIDs())); unknown {
			return a.noCheck(flag, ids, e)
		}
	}
	if err := a.tryOutputs(); err != nil {
		return err
	}
	code := exit.Config
	if slices.ContainsFunc([]string{"store-ca", "store-cert", "store-key"}, func(name string) bool { return a.o.given[name] }) {
		code = exit.Usage
	} else if j.Store.V.Embedded || len(j.Store.V.Endpoints) == 0 {
		return nil
	}
	for _, look := range []struct {
		access rendezvous.Access
		names  []string
	}{
		{rendezvous.Access{CA: a.o.access.CA}, []string{a.named("store-ca", "ETCDCTL_CACERT")}},
		{rendezvous.Access{Cert: a.o.access.Cert, Key: a.o.access.Key}, []string{a.named("store-cert", "ETCDCTL_CERT"), a.named("store-key", "ETCDCTL_KEY")}},
	} {
		if _, err := look.access.Config(); err != nil {
			return &exit.Error{Code: code, What: fmt.Sprintf("%s: %v", strings.Join(look.names, ", "), err),
				Fix: "name files on this node that this user can read, as for etcdctl: --store-ca FILE; --store-cert FILE --store-key FILE"}
		}
	}
	return nil
}

// named is where the value of one of these flags comes from.
func (a *app) named(flag, etcdctl string) string {
	if os.Getenv(env(flag)[0]) == "" && !a.o.given[flag] && os.Getenv(etcdctl) != "" {
		return etcdctl
	}
	return a.o.from(flag)
}

// tryOutputs refuses what is to be written last and cannot be: nothing is done in vain.
func (a *app) tryOutputs() error {
	for flag, file := range map[string]string{"textfile": a.o.textfile, "html": a.o.html, "history": a.o.history} {
		if err := writable(file); err != nil {
			return cannotWrite(a.o.from(flag), file, err)
		}
	}
	return nil
}

// writePage writes what --html asks for.
func (a *app) writePage(page []byte, err error) error {
	if err == nil {
		err = os.WriteFile(a.o.html, page, 0o666)
	}
	if err != nil {
		return cannotWrite(a.o.from("html"), a.o.html, err)
	}
	return nil
}

// writable tells whether a file can be made, or written to; "" can.
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

func cannotWrite(flag, file string, err error) error {
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s %s: %v", flag, file, err), Fix: "ls -ld " + filepath.Dir(file) + " " + file + "   # a file in a directory, both of which this user can write"}
}

// noCheck is said of an ID that no check has; the hint is the list as it was meant.
func (a *app) noCheck(flag string, ids []string, e *preflight.UnknownError) error {
	meant := strings.Join(ids, ",")
	if e.Meant != "" {
		meant = strings.ReplaceAll(meant, e.ID, e.Meant)
	} else {
		meant = strings.Trim(strings.ReplaceAll(","+meant+",", ","+e.ID+",", ","), ",")
	}
	out := &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s: %v", a.o.from(flag), e), Fix: fmt.Sprintf("--%s %s", flag, meant)}
	if meant == "" {
		out.Fix = "launch check   # prints the checks of a node"
	}
	return out
}

func (a *app) noCheckDir(err error) error {
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s %s: %v", a.o.from("check-dir"), a.o.checkDir, err), Fix: "ls -ld " + a.o.checkDir + "   # on this node"}
}
