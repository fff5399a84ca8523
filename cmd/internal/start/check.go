package start

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/envgen"
	"launch/fabric"
	"launch/fabric/ofi"
	"launch/fabric/verbs/confine"
	"launch/internal/dns"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/masterport"
	"launch/preflight"
)

// check fills in the verdicts about this node. A failed check is no error here.
func (s *Start) check(ctx context.Context) error {
	in := s.checkInput()
	if s.Machine != nil && s.Job.Several() {
		in.Addr, _ = s.recordedAddr() // an address that is no node's: unknown
	}
	if s.Job.Several() && !s.Opt.DryRun && !ofAPod(s.Job) {
		place, err := s.find(ctx, firstLook)
		_, late := errors.AsType[*storeaddr.NameError](err)
		switch {
		case err == nil:
			if in.Addr = place.Addr; !place.Contested || len(place.Others(s.Node)) == 0 {
				in.Serve = place.Serve
			}
			if s.Subcommand == "" {
				known := s.Input
				known.World.Addr = place.Addr
				in.Lint = envgen.Lint(known)
			}
		case !late && s.Subcommand == "":
			return err
		}
	}
	opt, err := s.choose(&in)
	if err != nil {
		return err
	}
	s.Local, err = preflight.Run(ctx, s.Checks.Named(), in, opt)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return exit.Errorf(exit.Usage, "%v", err)
	}
	return nil
}

// verdict prints the findings about this node, and refuses an unfit one.
func (s *Start) verdict(context.Context) error {
	s.UI.Findings(s.Job.Notes, false)
	s.UI.Findings(s.Local, false)
	return s.unfit()
}

// unfit returns the error that ends a start because of this node's own checks, or nil.
func (s *Start) unfit() error {
	failed := s.Local.Failed()
	for _, f := range failed { // the finding has the advice
		switch f.ID {
		case "command.found":
			return exit.Errorf(exit.NotFound, "command not found: %s", s.Job.Line.Argv[0])
		case "command.executable":
			return exit.Errorf(exit.NotExec, "command cannot be executed: %s", s.Job.Line.Argv[0])
		case "store.resolves", "store.port":
			return exit.Errorf(exit.Unreachable, "store unreachable: %s", f.What)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return exit.Errorf(exit.Unfit, "this node is unfit: %s", ui.Summary(s.Local, time.Since(s.began))).
		Do("fix the failures above, then start again\n--skip ID leaves a check out, --warn-only starts anyway")
}

// choose returns which checks run, the user's own included.
func (s *Start) choose(in *preflight.Input) (preflight.Options, error) {
	opt := s.options()
	if s.Opt.CheckDir == "" {
		return opt, nil
	}
	if !s.Opt.DryRun { // a dry run executes nothing
		in.UserEnv = slices.DeleteFunc(handoff.Environ(),
			func(v string) bool { return strings.HasPrefix(v, "LAUNCH_TOKEN=") })
	}
	var err error
	if opt.More, err = preflight.CheckDir(s.Opt.CheckDir, *in); err != nil {
		return opt, s.noCheckDir(err)
	}
	return opt, nil
}

// checkInput returns the input of the checks. A dry run opens no socket.
func (s *Start) checkInput() preflight.Input {
	in := preflight.Input{
		Job: s.Job, Node: s.Node, Lint: envgen.Lint(s.Input), LintIDs: envgen.LintIDs(),
		Thresholds: s.Opt.Thresholds, Ports: envgen.Ports(s.Input),
		Env: os.LookupEnv,
	}
	if s.Machine == nil { // a recorded node has other files
		in.LookPath, in.Stat, in.Disks = searchPath, readable, fabric.RememberDisks()
		in.PassedOver = passedOver
		in.Exists = func(path string) bool { _, err := os.Stat(path); return err == nil }
		in.Dir, _ = os.Getwd()
	}
	if s.Subcommand == "check" && len(s.argv) == 0 { // nothing is started, so nothing can be missing
		in.Job.Line.Argv, in.LookPath = nil, nil
	}
	if s.Opt.DryRun {
		return in
	}
	if s.Machine == nil {
		sys := fabric.Live().Sys
		in.LinkErrors = func(hca string, port int) (fabric.LinkErrors, error) { return fabric.ReadLinkErrors(sys, hca, port) }
		in.Loop = confine.Loop
		in.OFI = func(library string) (ofi.Programs, bool) { return ofi.Find(library, exec.LookPath) }
	}
	if ofAPod(s.Job) {
		return in
	}
	in.Resolve = rememberedResolver()
	if s.Machine == nil {
		servers := nameServers(s.Node)
		in.Servers, in.Reverse = servers.Remembered(), servers.ReverseAll
	}
	in.Dial, in.Stuck = (&net.Dialer{}).DialContext, fabric.Stuck
	in.Detour = func(to netip.AddrPort) fabric.Detour { return fabric.DetourTo(netip.Addr{}, to) }
	in.Redirected = func(to netip.AddrPort) netip.AddrPort { return fabric.Redirected(netip.Addr{}, to) }
	in.Neighbour, in.Trail, in.Around = fabric.Neighbour, fabric.TrailTo, fabric.AroundOf
	in.Unheard = fabric.Unheard
	in.DialFrom = func(ctx context.Context, from netip.Addr, addr string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		return d.DialContext(ctx, "tcp", addr)
	}
	in.PortUse = func(at netip.AddrPort) (preflight.PortUse, error) {
		u, err := masterport.Look(os.DirFS("/proc"), at)
		return preflight.PortUse(u), err
	}
	return in
}

// answered returns what a look at files returns, or os.ErrDeadlineExceeded: a hung file system keeps it for ever.
func answered[T any](look func() (T, error)) (T, error) {
	v, late, err := fabric.Within(preflight.File, look)
	if late {
		err = fmt.Errorf("no answer within %s: %w", preflight.File, os.ErrDeadlineExceeded)
	}
	return v, err
}

// searchPath finds a program in PATH; fs.ErrPermission: it may not be executed.
func searchPath(name string) (string, error) {
	path, err := lookPath(name)
	if errors.Is(err, handoff.ErrNotExecutable) {
		err = denied{err}
	}
	return path, err
}

// passedOver returns why a program in an earlier folder of PATH is not the one that is run.
func passedOver(name string) error {
	err, _ := answered(func() (error, error) { return handoff.PassedOver(name, handoff.Environ()), nil })
	return err
}

// denied makes an error fs.ErrPermission without changing its text.
type denied struct{ error }

func (d denied) Unwrap() error { return d.error }

func (denied) Is(target error) bool { return target == fs.ErrPermission }

// systemResolver looks up a name as the job's own programs will.
func systemResolver(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// rememberedResolver returns a systemResolver that looks each name up only once: one that waits for a dead name server
// keeps the time of one check, not of each.
func rememberedResolver() func(ctx context.Context, host string) ([]netip.Addr, error) {
	type answer struct {
		addrs []netip.Addr
		err   error
	}
	var mu sync.Mutex
	asked := map[string]func() answer{}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		mu.Lock()
		ask, ok := asked[host]
		if !ok {
			ask = sync.OnceValue(func() answer {
				addrs, err := systemResolver(ctx, host)
				return answer{addrs, err}
			})
			asked[host] = ask
		}
		mu.Unlock()
		a := ask()
		return a.addrs, a.err
	}
}

// nameServers returns the servers of resolv.conf, or none if nsswitch.conf uses none.
func nameServers(n fabric.Node) dns.Config {
	r := n.System.Resolver
	if !slices.Contains(r.Services, "dns") && !slices.Contains(r.Services, "resolve") {
		return dns.Config{}
	}
	return dns.Config{Servers: dns.At(r.Servers), Search: r.Search, Ndots: r.Ndots}
}

// readable does not open the file, which may be a pipe of the shell: python <(…).
func readable(path string) (fs.FileMode, error) {
	return answered(func() (fs.FileMode, error) { return accessible(path) })
}

func accessible(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		if at := handoff.Barred(path); at != "" && errors.Is(err, fs.ErrPermission) {
			err = &fs.PathError{Op: handoff.OpEnter, Path: at, Err: fs.ErrPermission}
		}
		return 0, err
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS); err != nil {
		return info.Mode(), &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return info.Mode(), nil
}

// noCheckDir is the error for a folder of --check-dir that cannot be used.
func (s *Start) noCheckDir(err error) error {
	return exit.Errorf(exit.Usage, "%s %s: %v", s.Opt.From("check-dir"), s.Opt.CheckDir, err).
		Do("ls -ld %s   # on this node", s.Opt.CheckDir)
}
