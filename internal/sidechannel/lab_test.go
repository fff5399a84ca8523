package sidechannel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"launch/internal/secret"
	"launch/lab/netns"
)

// role makes this test's program a listener or a caller on a host of the lab.
const role = "LAUNCH_TEST_PEER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		flag.Parse()
		_ = flag.Set("test.parallel", "8") // they wait; the default is one for each core
		goleak.VerifyTestMain(m)
		return
	case "listen":
		err = listenRole()
	case "stranger":
		err = strangerRole()
	case "probe":
		err = probeRole()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// listening is the order to a listener's host.
type listening struct {
	At    netip.AddrPort // port 0: any
	ID    string
	Token string
	About []byte
	Skew  time.Duration // of its clock
}

// calling is the order to a caller's host.
type calling struct {
	To      netip.AddrPort
	Token   string
	Opt     Options
	Timeout time.Duration
}

type called struct {
	Answer Answer
	Cause  Cause
	Text   string
	Took   time.Duration
}

func parameter[T any]() (v T, err error) {
	err = json.Unmarshal([]byte(os.Getenv(role+"_ARG")), &v)
	return v, err
}

func listenRole() error {
	p, err := parameter[listening]()
	if err != nil {
		return err
	}
	k, err := keysOf(p.Token)
	if err != nil {
		return err
	}
	skewed := func() time.Time { return time.Now().Add(p.Skew) }
	l, err := open(p.At, k.server(), p.ID, p.About, skewed)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println(l.Port())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// strangerRole accepts connections and sends its given text; "" sends nothing
// and "-" hangs up.
func strangerRole() error {
	p, err := parameter[listening]()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.At.String())
	if err != nil {
		return err
	}
	go strange(l, p.ID)
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func strange(l net.Listener, word string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if word == "-" {
				return
			}
			_, _ = io.WriteString(c, word)
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}

func probeRole() error {
	p, err := parameter[calling]()
	if err != nil {
		return err
	}
	k, err := keysOf(p.Token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	began := time.Now()
	a, err := Probe(ctx, p.To, k.client(), p.Opt)
	out := called{Answer: a, Cause: CauseOf(err), Took: time.Since(began)}
	if err != nil {
		out.Text = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// maybe are keys, or nil without a token.
type maybe struct{ *secret.Keys }

func (m maybe) server() *tls.Config {
	if m.Keys == nil {
		return nil
	}
	return m.Server()
}

func (m maybe) client() *tls.Config {
	if m.Keys == nil {
		return nil
	}
	return m.Client()
}

func keysOf(token string) (maybe, error) {
	if token == "" {
		return maybe{}, nil
	}
	k, err := secret.Token(token).Keys("j"), secret.Token(token).Check()
	return maybe{k}, err
}

// itself is this program on a host, in a role.
func itself(t *testing.T, h *netns.Host, as string, arg any) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(arg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.Command(t.Context(), self)
	cmd.Env = append(cmd.Env, role+"="+as, role+"_ARG="+string(b))
	cmd.Stderr = os.Stderr
	return cmd
}

// serveOn runs a listener on a host until the test ends, and returns its port.
func serveOn(t *testing.T, h *netns.Host, as string, p listening) uint16 {
	t.Helper()
	cmd := itself(t, h, as, p)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(strings.TrimSpace(line), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(port)
}

func probeFrom(t *testing.T, h *netns.Host, p calling) called {
	t.Helper()
	if p.Timeout == 0 {
		p.Timeout = 8 * time.Second
	}
	out, err := itself(t, h, "probe", p).Output()
	if err != nil {
		t.Fatalf("probe from %s: %v", h.Name, err)
	}
	var c called
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	t.Logf("%s -> %s: %+v", h.Name, p.To, c)
	return c
}

// sh runs a line on a host.
func sh(t *testing.T, h *netns.Host, format string, args ...any) {
	t.Helper()
	var b bytes.Buffer
	cmd := h.Command(t.Context(), "sh", "-ec", fmt.Sprintf(format, args...))
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Run(); err != nil {
		t.Fatalf("on %s: %v\n%s", h.Name, err, b.String())
	}
}

// needNft skips where packets cannot be filtered.
func needNft(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("dropping packets needs the nft command (package nftables)")
	}
}

// drop filters on a host: hook is input, output or forward.
func drop(t *testing.T, h *netns.Host, hook, rule string) {
	t.Helper()
	sh(t, h, "nft add table inet t; nft 'add chain inet t %s { type filter hook %s priority 0; }'; "+
		"nft 'add rule inet t %s %s'", hook, hook, hook, rule)
}
