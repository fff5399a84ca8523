package roce

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"launch/fabric/verbs"
	"launch/fabric/verbs/confine"
)

// Variables by which init gives the agent its role and its task.
const (
	varAgent = "LAUNCH_ROCE_AGENT"
	varList  = "LAUNCH_ROCE_LIST"
)

// The lists of cases that a machine may run.
const (
	listCases = "cases"
	listBench = "bench" // streams, in one machine
	listPings = "pings"
)

// patience is the time limit for the other machine, which may still run the previous
// case.
const patience = 3 * time.Minute

// The machines. The client leads in every test between them. An agent without
// privileges runs below one of them.
const (
	server       = "server"
	client       = "client"
	unprivileged = "unprivileged"
	sleeper      = "sleeper" // does nothing
)

// sideAddr is the server's address on the cable that no test touches.
const sideAddr = "10.10.0.1:7000"

// report is one machine's report of one case: a line of JSON.
type report struct {
	Case    string
	Seconds float64
	Err     *verbs.Error      `json:",omitempty"`
	Trouble string            `json:",omitempty"` // in the laboratory, not in the code under test
	Devices []verbs.Device    `json:",omitempty"`
	Loop    *verbs.LoopResult `json:",omitempty"`
	Run     *verbs.Result     `json:",omitempty"`
	Ran     []sample          `json:",omitempty"`
	Note    string            `json:",omitempty"`
}

// step is one case: what each machine does. A nil function does nothing.
type step struct {
	name           string
	server, client func(a *machineAgent, r *report)
}

// machineAgent is the agent of one machine.
type machineAgent struct {
	role string // server, client or unprivileged
	peer *peer  // of the current case
}

// agent runs a list of cases in a machine and writes a report of each.
func agent() int {
	a := &machineAgent{role: os.Getenv(varAgent)}
	switch a.role {
	case unprivileged:
		return runUnprivileged()
	case sleeper:
		time.Sleep(time.Hour)
		return 0
	}
	door, err := listen(a.role)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	list := cases
	switch os.Getenv(varList) {
	case listBench:
		benchmark(door)
		return 0
	case listPings:
		list = benchCases
	}
	for _, s := range list {
		r := report{Case: s.name}
		begun := time.Now()
		if a.peer, err = meet(door, s.name); err != nil {
			r.Trouble = err.Error()
		} else {
			do := s.server
			if a.role == client {
				do = s.client
			}
			if do != nil {
				do(a, &r)
			}
			a.peer.leave()
		}
		r.Seconds = time.Since(begun).Seconds()
		r.print()
	}
	return 0
}

func (r *report) print() {
	line, err := json.Marshal(r)
	if err != nil {
		line, _ = json.Marshal(report{Case: r.Case, Trouble: err.Error()})
	}
	fmt.Println(string(line))
	fmt.Fprintln(os.Stderr, r.Case, "done")
}

func listen(role string) (net.Listener, error) {
	if role == client {
		return nil, nil
	}
	return net.Listen("tcp", sideAddr)
}

// peer is the other machine's agent in one case.
type peer struct{ conn net.Conn }

// meet waits until both machines have reached the same case.
func meet(door net.Listener, name string) (*peer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := &peer{}
	var err error
	if door != nil {
		p.conn, err = door.Accept()
	} else {
		p.conn, err = dial(ctx)
	}
	if err != nil {
		return nil, err
	}
	theirs, err := p.say(ctx, []byte(name))
	if err == nil && string(theirs) != name {
		err = fmt.Errorf("this machine is at %q, the other one at %q", name, theirs)
	}
	if err != nil {
		p.conn.Close()
		return nil, err
	}
	return p, nil
}

func dial(ctx context.Context) (net.Conn, error) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", sideAddr)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-again.C:
		}
	}
}

// say is a verbs.Exchange: frames with their length in four bytes.
func (p *peer) say(ctx context.Context, mine []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { p.conn.SetDeadline(time.Now()) })
	defer stop()
	if _, err := p.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(mine))), mine...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	theirs := make([]byte, min(binary.BigEndian.Uint32(head[:]), 1<<20))
	_, err := io.ReadFull(p.conn, theirs)
	return theirs, err
}

// leave ends the case. It closes the connection when the other side has done so too, or
// after a while.
func (p *peer) leave() {
	p.conn.SetDeadline(time.Now().Add(patience))
	if c, ok := p.conn.(*net.TCPConn); ok {
		c.CloseWrite()
	}
	io.Copy(io.Discard, p.conn)
	p.conn.Close()
}

// barrier waits for the other machine at one point of a case.
func (a *machineAgent) barrier(r *report) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := a.peer.say(ctx, []byte("barrier")); err != nil {
		r.Trouble += "barrier: " + err.Error() + "; "
	}
}

// sh runs a line of the machine's shell.
func (r *report) sh(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if out, err := exec.Command("/bin/sh", "-c", line).CombinedOutput(); err != nil {
		r.Trouble += fmt.Sprintf("%s: %v: %s; ", line, err, strings.TrimSpace(string(out)))
	}
}

// run runs this machine's end of a test in a child, as launch does.
func (a *machineAgent) run(r *report, t verbs.Test, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second)
	defer cancel()
	t.Lead = a.role == client
	res, err := confine.Run(ctx, t, limit, a.peer.say)
	r.Run = &res
	r.fail(err)
}

func (r *report) fail(err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*verbs.Error](err); ok {
		r.Err = e
		return
	}
	r.Trouble += err.Error()
}
