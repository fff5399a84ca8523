package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"launch/internal/child"
)

func TestMain(m *testing.M) {
	if code, ok := child.Dispatch(children()); ok {
		os.Exit(code)
	}
	_ = flag.Set("test.parallel", "4") // the scripts mostly wait; -parallel overrides it
	testscript.Main(m, map[string]func(){
		"launch":    func() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) },
		"serve":     func() { os.Exit(serve(os.Args[1], os.Args[2])) },
		"call":      func() { os.Exit(call(os.Args[1])) },
		"nixlbench": func() { os.Exit(nixlbench(os.Args[1:])) },
	})
}

// serve greets the first callers at an address, as many as asked for, and ends: a program that a stray connection
// would break. One that says nothing is such a connection.
func serve(at, callers string) int {
	l, err := net.Listen("tcp", at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n, _ := strconv.Atoi(callers)
	for range n {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		said, _ := io.ReadAll(c)
		fmt.Printf("%q called\n", said)
		c.Close()
	}
	return 0
}

// call calls what serve serves, once: nobody is to be refused.
func call(at string) int {
	c, err := net.Dial("tcp", at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprint(c, "reader")
	c.Close()
	return 0
}

// TestScript runs launch as a user does, with every subcommand and exit status.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// The machine's own scheduler or job must not affect a script.
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TMPDIR", "/tmp") // the path of a socket must be short
			e.Setenv("PORT", freePort(e.T().(testing.TB)))
			e.Setenv("PORT2", freePort(e.T().(testing.TB)))
			e.Setenv("PATH", os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "until": until},
		Condition: func(name string) (bool, error) {
			switch name {
			case "namespaces":
				return exec.Command("unshare", "-nm", "true").Run() == nil, nil
			case "etcd":
				_, err := exec.LookPath("etcd")
				return err == nil, nil
			}
			return false, fmt.Errorf("no such condition: %s", name)
		},
	})
}

// code runs a command and checks its exit status: code 64 launch --bad.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("code: %v", err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("code: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// until repeats a command until its output contains a text:
// until '1 joined' launch status --store HOST.
func until(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ts.Exec(args[1], args[2:]...) == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
	}
	ts.Fatalf("%s never printed %q", strings.Join(args[1:], " "), args[0])
}

// freePort returns a port without a listener, for a store. It is below the range of
// outgoing connections, one of which could otherwise take it.
func freePort(t testing.TB) string {
	for range 100 {
		port := strconv.Itoa(10000 + rand.IntN(19000))
		l, err := net.Listen("tcp", ":"+port)
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// TestHelpFits80Columns keeps the help readable in a narrow terminal.
func TestHelpFits80Columns(t *testing.T) {
	a := newApp(io.Discard, io.Discard)
	texts := map[string]string{"launch": a.help()}
	for _, c := range a.subcommands() {
		texts[c.Name] = subcommandHelp(c)
	}
	for name, text := range texts {
		for _, l := range strings.Split(text, "\n") {
			if n := len([]rune(l)); n > 80 {
				t.Errorf("%s --help: %d columns: %s", name, n, l)
			}
			if strings.TrimRight(l, " ") != l {
				t.Errorf("%s --help: space at the end of %q", name, l)
			}
		}
	}
	for _, f := range a.startFlags() {
		if !strings.Contains(texts["launch"], "--"+f.Names()[0]) {
			t.Errorf("--%s is not in the help", f.Names()[0])
		}
	}
	if !strings.Contains(texts["status"], "--watch ") {
		t.Errorf("--watch is not in its help")
	}
}
