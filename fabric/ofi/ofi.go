// Package ofi asks libfabric by its own programs, fi_info and fi_pingpong, which its installers bring. EFA has no other
// test: its endpoints are libfabric's.
package ofi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"launch/internal/process"
)

// EFA is the name of the provider of Elastic Fabric Adapters.
const EFA = "efa"

// Programs are the paths of fi_info and fi_pingpong.
type Programs struct{ Info, PingPong string }

// folders are where installers put the programs when PATH does not have them: the EFA installer's own.
var folders = []string{"/opt/amazon/efa/bin"}

// Find returns the programs that come with a libfabric: in bin next to its lib, in PATH, or where an installer puts
// them. false: one of them is missing.
func Find(library string, lookPath func(string) (string, error)) (p Programs, ok bool) {
	in := slices.Clone(folders)
	if library != "" {
		in = append([]string{filepath.Join(filepath.Dir(library), "..", "bin")}, in...)
	}
	find := func(name string) string {
		for i, dir := range in {
			if i > 0 || library == "" {
				if path, err := lookPath(name); err == nil {
					return path
				}
			}
			if path, err := lookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
		return ""
	}
	p = Programs{find("fi_info"), find("fi_pingpong")}
	return p, p.Info != "" && p.PingPong != ""
}

// An Error is what a program of libfabric says of its failure.
type Error struct {
	Program string
	Says    string // its last line, or how it ended
	Late    bool   // it took too long
}

func (e *Error) Error() string { return e.Program + ": " + e.Says }

// Domains returns the domains of a provider that have reliable datagrams (FI_EP_RDM), each once: of EFA one for each
// adapter, named like the HCA with "-rdm". None: libfabric finds no device for it. An error is an *Error.
func (p Programs) Domains(ctx context.Context, provider string) (domains []string, err error) {
	out, err := run(ctx, p.Info, "-p", provider, "-t", "FI_EP_RDM")
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(e.Says, "-61") { // ENODATA
		return nil, nil
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "domain: "); ok && !slices.Contains(domains, name) {
			domains = append(domains, name)
		}
	}
	return domains, err
}

// What Loop sends: more than one packet of EFA (8 KiB), as often as fi_pingpong does by default.
const (
	loopTimes = 10
	loopBytes = 64 << 10
)

// lastWord is how long the first end may take to say why it failed, after the second one has failed.
const lastWord = 200 * time.Millisecond

// Loop makes a domain of a provider send 64 KiB to itself and back, 10 times, and compare each byte. It returns the
// time of one transfer. An error is an *Error.
func (p Programs) Loop(ctx context.Context, provider, domain string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return 0, &Error{Program: p.PingPong, Says: err.Error()}
	}
	args := []string{"-p", provider, "-d", domain, "-e", "rdm", "-I", strconv.Itoa(loopTimes),
		"-S", strconv.Itoa(loopBytes), "-c"}
	served := make(chan error, 1)
	go func() {
		_, err := run(ctx, p.PingPong, append([]string{"-B", strconv.Itoa(port)}, args...)...)
		served <- err
	}()
	if err := await(ctx, port, served); err != nil {
		return 0, err
	}
	out, err := run(ctx, p.PingPong, append(append([]string{"-P", strconv.Itoa(port)}, args...), "127.0.0.1")...)
	if err != nil {
		select {
		case first := <-served: // it failed before, and says why
			return 0, cmp.Or(first, err)
		case <-time.After(lastWord):
			return 0, err
		}
	}
	return transfer(out)
}

// await waits until the first end listens for the second one. It asks the kernel: a try to listen there would be in the
// way of the first end's own.
func await(ctx context.Context, port int, served <-chan error) error {
	for {
		on, err := process.Listening(port)
		if err != nil {
			return &Error{Program: "fi_pingpong", Says: err.Error()}
		}
		if on {
			return nil
		}
		select {
		case err := <-served:
			if err == nil {
				err = &Error{Program: "fi_pingpong", Says: "it ended before the test"}
			}
			return err
		case <-ctx.Done():
			return &Error{Program: "fi_pingpong", Says: "no answer", Late: true}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// transfer reads the column usec/xfer of fi_pingpong's table.
func transfer(out []byte) (time.Duration, error) {
	column := -1
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		f := strings.Fields(s.Text())
		if i := slices.Index(f, "usec/xfer"); i >= 0 {
			column = i
			continue
		}
		if column >= 0 && column < len(f) {
			if us, err := strconv.ParseFloat(f[column], 64); err == nil {
				return time.Duration(us * float64(time.Microsecond)), nil
			}
		}
	}
	return 0, &Error{Program: "fi_pingpong", Says: "its output has no time"}
}

// freePort returns a port of TCP that is free now: fi_pingpong arranges the test over it.
func freePort() (int, error) {
	// A child that is forked meanwhile would listen there, too, until its exec.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// run runs a program until the context ends, and returns its standard output.
func run(ctx context.Context, program string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, program, args...)
	// Two processes of one host would use shared memory, and not the adapter (fi_efa(7)).
	c.Env = append(os.Environ(), "FI_EFA_ENABLE_SHM_TRANSFER=0")
	c.WaitDelay = time.Second
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	e := &Error{Program: filepath.Base(program), Says: lastLine(said.String())}
	switch {
	case ctx.Err() != nil:
		e.Says, e.Late = "no answer", true
	case e.Says == "":
		if e.Says = lastLine(out.String()); e.Says == "" {
			e.Says = fmt.Sprint(err)
		}
	}
	return out.Bytes(), e
}

// lastLine returns the last line of a text that says something.
func lastLine(text string) (last string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return last
}
