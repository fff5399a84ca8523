package faultbench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"launch/lab/netns"
)

// assistant is the variable that makes this test binary a program on a host.
const assistant = "FAULTBENCH_ASSISTANT"

// assist runs a program of the fault on a host until the trial ends. "proxy" accepts
// connections and closes them, "listen" only accepts them, "dns-…" is a name server
// for one name, "zone-…" for a zone.
func (h *host) assist(tr *trial, what, addr string) { assist(tr, h.Host, what, addr) }

func assist(tr *trial, h *netns.Host, what, addr string) {
	tr.t.Helper()
	self, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.Command(ctx, self, addr)
	cmd.Env = append(cmd.Env, assistant+"="+what)
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Cancel = func() error { return cmd.Process.Kill() }
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		tr.t.Fatalf("%s on %s: %q, %v", what, h.Name, line, err)
	}
}

// assistOn is the program itself. It prints a line on stdout when it is ready.
func assistOn(what, addr string) int {
	var err error
	switch kind, _, _ := strings.Cut(what, "-"); kind {
	case "proxy", "listen":
		err = take(what == "proxy", addr)
	case "zone":
		err = zone(what, addr)
	case "dns":
		err = nameServer(strings.TrimPrefix(what, "dns-"), addr)
	default:
		err = fmt.Errorf("no assistant %q", what)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func take(cut bool, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if cut {
			c.Close()
		}
	}
}

// nameServer answers for host0.lab: with its address ("good"; "late-5": after 5 s),
// another address ("other"), a code ("nxdomain", "servfail", "refused"), or not at
// all ("silent").
func nameServer(how, addr string) error {
	began := time.Now()
	late := 0
	if s, ok := strings.CutPrefix(how, "late-"); ok {
		late, _ = strconv.Atoi(s)
		how = "good"
	}
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.RecursionAvailable = true // else Go's resolver asks the next server for an address that is missing
		soa, _ := dns.NewRR("lab. 30 IN SOA ns.lab. root.lab. 1 60 60 60 30")
		name := q.Question[0].Name
		switch is := name == "host0.lab." || name == "late.lab."; {
		case how == "silent":
			return
		case how == "servfail":
			m.Rcode = dns.RcodeServerFailure
		case how == "refused":
			m.Rcode = dns.RcodeRefused
		case how == "nxdomain", !is && how != "any", time.Since(began) < time.Duration(late)*time.Second:
			m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa}
		case q.Question[0].Qtype == dns.TypeA:
			at := "10.77.0.1"
			if how == "other" || !is {
				at = "10.77.0.99"
			}
			rr, _ := dns.NewRR(name + " 30 IN A " + at)
			m.Answer = []dns.RR{rr}
		default:
			m.Ns = []dns.RR{soa}
		}
		_ = w.WriteMsg(m)
	})
	fmt.Println("ready")
	return (&dns.Server{PacketConn: conn, Handler: handler}).ActivateAndServe()
}

// ahead builds a launch whose wall clock, and its companion's, is wrong by d; see
// lab/e2e/testdata/skew.c.
func ahead(t *testing.T, d time.Duration) (launch string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("needs x86-64 to set a process's clock")
	}
	dir := t.TempDir()
	lib := filepath.Join(dir, "libskew.so")
	launch = filepath.Join(dir, "launch")
	for _, argv := range [][]string{
		{"gcc", "-O2", "-fno-stack-protector", "-fcf-protection=none", "-shared", "-fPIC",
			fmt.Sprintf("-DALWAYS=\"%d\"", int(d.Seconds())), "-o", lib, "../e2e/testdata/skew.c"},
		{"go", "build", "-ldflags", "-linkmode=external '-extldflags=-Wl,-z,lazy -Wl,--no-as-needed " + lib + "'", "-o",
			launch, "launch/cmd/launch"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("a launch with another clock cannot be built: %v\n%s", err, out)
		}
	}
	return launch
}
