package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/ncclras"
)

// RAS is NCCL's RAS service as this node's ranks have it. Its answer is about all processes of their job.
type RAS struct {
	At      netip.AddrPort  `json:"at"`
	Net     uint64          `json:"net,omitempty"`
	PID     int             `json:"pid"` // a rank that listens there
	Outcome Outcome         `json:"outcome"`
	Err     string          `json:"err,omitempty"`
	Took    time.Duration   `json:"took"`
	Report  *ncclras.Report `json:"report,omitempty"` // Answered; of the second look
	// Still is true if two looks, Span apart, found the same differences between ranks. Moved: more collectives had
	// been launched at the second look.
	Still bool `json:"still,omitempty"`
	Moved bool `json:"moved,omitempty"`
}

// maxRAS services are asked.
const maxRAS = 4

// services returns the RAS services of the job: listeners of its ranks on NCCL's port, with NCCL loaded. A port on
// which another process listens as well is not asked: NCCL shares it (SO_REUSEPORT), and the other may answer.
func services(job []*seen, at *moment, o Options, here uint64, g *gaps) []RAS {
	ports := map[uint64]map[uint16]bool{}
	of := map[int]*seen{}
	first := false
	for _, p := range job {
		if p.role != Rank || !has(p.libs, "nccl") || p.env["NCCL_RAS_ENABLE"] == "0" {
			continue
		}
		ns := cmp.Or(p.net, here)
		if ports[ns] == nil {
			ports[ns] = map[uint16]bool{}
		}
		of[p.pid] = p
		ports[ns][rasPort(p.env)] = true
		_, number := p.number()
		first = first || number == "0"
	}
	if len(of) == 0 || o.Shared && !first {
		return nil
	}
	var out []RAS
	foreign := map[string]bool{}
	for _, s := range sockets(job, at, here, ports, g) {
		if s.State != stateListen || !ports[s.Net][s.Local.Port()] {
			continue
		}
		key := fmt.Sprint(s.Net, " ", s.Local.Port())
		if of[s.PID] == nil {
			foreign[key] = true
			continue
		}
		same := func(r RAS) bool { return r.Net == s.Net && r.At.Port() == s.Local.Port() }
		if len(out) < maxRAS && !slices.ContainsFunc(out, same) {
			out = append(out, RAS{At: callable(s.Local), Net: s.Net, PID: s.PID})
		}
	}
	return slices.DeleteFunc(out, func(r RAS) bool {
		shared := foreign[fmt.Sprint(r.Net, " ", r.At.Port())]
		if shared {
			g.add(0, fmt.Sprintf("NCCL's RAS on port %d", r.At.Port()), "another process listens there too",
				"set NCCL_RAS_ADDR for one of the jobs")
		}
		return shared
	})
}

// rasPort returns the port of a rank's RAS service.
func rasPort(env map[string]string) uint16 {
	_, port, err := net.SplitHostPort(env["NCCL_RAS_ADDR"])
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 {
		return ncclras.Port
	}
	return uint16(n)
}

// callable returns the address at which a listener on any address is reached from its own host.
func callable(a netip.AddrPort) netip.AddrPort {
	if !a.Addr().IsUnspecified() {
		return a
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
}

// ask asks all services once, at the same time.
func ask(ctx context.Context, all []RAS, here uint64) []RAS {
	out := slices.Clone(all)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i].ask(ctx, here) })
	}
	wg.Wait()
	return out
}

func (r *RAS) ask(ctx context.Context, here uint64) {
	began := time.Now()
	ns := ""
	if r.Net != 0 && r.Net != here {
		ns = procPath(r.PID, "ns/net")
	}
	report, err := ncclras.Ask(ctx, func(ctx context.Context) (net.Conn, error) {
		return dial(ctx, r.At, ns, dialLimit)
	})
	r.Took = time.Since(began)
	switch {
	case err == nil:
		r.Outcome, r.Report = Answered, &report
		return
	case errors.Is(err, ncclras.ErrSilent):
		r.Outcome = Silent
	case errors.Is(err, ncclras.ErrGarbage), errors.Is(err, ncclras.ErrTooLong):
		r.Outcome = Garbage
	case errors.Is(err, unix.ECONNREFUSED):
		r.Outcome = Refused
	default:
		r.Outcome = Unreachable
	}
	r.Err = clean(plain(err), maxValue)
}

// compare notes in the second answers what changed since the first.
func compare(before, after []RAS) {
	for i := range after {
		a, b := before[i].Report, after[i].Report
		if a == nil || b == nil {
			continue
		}
		launched := func(r *ncclras.Report) (n uint64) {
			for _, c := range r.Comms {
				n += c.Launched
			}
			return n
		}
		after[i].Moved = launched(a) != launched(b)
		after[i].Still = !after[i].Moved && reflect.DeepEqual(a.Comms, b.Comms)
	}
}
