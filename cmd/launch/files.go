package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"launch/internal/job"
	"launch/rendezvous"
)

// readInputs refuses what was named to be read and cannot be, before anything is
// looked at or waited for. What only variables name counts where it is used:
// etcdctl's stand in the environment of many shells.
func (a *app) readInputs(j job.Job) error {
	if dir := a.o.checkDir; dir != "" {
		if _, err := os.ReadDir(dir); err != nil {
			return a.noCheckDir(err)
		}
	}
	for flag, file := range map[string]string{"textfile": a.o.textfile, "html": a.o.html} {
		if err := unix.Access(filepath.Dir(file), unix.W_OK|unix.X_OK); file != "" && err != nil {
			return cannotWrite(a.o.from(flag), file, err)
		}
	}
	code := exitConfig
	if slices.ContainsFunc([]string{"store-ca", "store-cert", "store-key"}, func(name string) bool { return a.o.given[name] }) {
		code = exitUsage
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
			return &job.Error{Code: code, What: fmt.Sprintf("%s: %v", strings.Join(look.names, ", "), err),
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

func cannotWrite(flag, file string, err error) error {
	return &job.Error{Code: exitUsage, What: fmt.Sprintf("%s %s: %v", flag, file, err), Fix: "ls -ld " + filepath.Dir(file) + "   # the file is made in there"}
}

func (a *app) noCheckDir(err error) error {
	return &job.Error{Code: exitUsage, What: fmt.Sprintf("%s %s: %v", a.o.from("check-dir"), a.o.checkDir, err), Fix: "ls -ld " + a.o.checkDir + "   # on this node"}
}
