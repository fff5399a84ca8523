package rendezvous

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"launch/rendezvous/memstore"
	"launch/rendezvous/protocol"
)

// register is the value of c/epoch and its version. rev is 0 where the
// key does not exist, and -1 where no client has received it.
type register struct {
	rev   int64
	value string
}

// access is a write that holds only if the version is expect, or a read.
type access struct {
	read   bool
	expect int64
	put    bool // else the condition alone
	value  string
}

// answer is the outcome: for a read and a write that held, what the register is
// afterwards; unknown where the reply was lost.
type answer struct {
	unknown bool
	now     register
}

// linear is a register of which versions are known or will be.
func linear() porcupine.Model {
	is := func(s register, rev int64) bool { return s.rev == rev || s.rev < 0 && rev > 0 }
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, output any) []any {
			s, in, out := state.(register), input.(access), output.(answer)
			switch {
			case in.read && s.value == out.now.value && is(s, out.now.rev):
				return []any{out.now}
			case in.read:
				return nil
			case out.unknown && is(s, in.expect):
				return []any{s, register{-1, in.value}}
			case out.unknown:
				return []any{s}
			case !is(s, in.expect):
				return nil
			case in.put:
				return []any{out.now}
			}
			return []any{s}
		},
	}).ToModel()
}

// history records what several clients do to c/epoch.
type history struct {
	key string

	mu   sync.Mutex
	time int64 // counts calls and returns
	ops  []porcupine.Operation
}

// recorder is one client's way through the history; it loses some requests and
// some replies.
type recorder struct {
	pb.KVClient
	h    *history
	id   int
	mu   sync.Mutex
	dice *rand.Rand
	loss float64
}

func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time++
	return h.time
}

func (r *recorder) note(call int64, in access, out answer) {
	end := r.h.now()
	if out.unknown {
		end = math.MaxInt64
	}
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	r.h.ops = append(r.h.ops, porcupine.Operation{ClientId: r.id, Input: in, Call: call, Output: out, Return: end})
}

func (r *recorder) lost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.Float64() < r.loss
}

// seen returns the register as a range shows it, if that covers it.
func (r *recorder) seen(q *pb.RangeRequest, a *pb.RangeResponse) (register, bool) {
	if a == nil || q.Limit > 0 || r.h.key < string(q.Key) || string(q.Key) != r.h.key && r.h.key >= string(q.RangeEnd) {
		return register{}, false
	}
	for _, kv := range a.Kvs {
		if string(kv.Key) == r.h.key {
			return register{kv.ModRevision, string(kv.Value)}, true
		}
	}
	return register{}, true
}

func (r *recorder) Range(ctx context.Context, q *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	call := r.h.now()
	a, err := r.KVClient.Range(ctx, q, opts...)
	if now, ok := r.seen(q, a); err == nil && ok {
		r.note(call, access{read: true}, answer{now: now})
	}
	return a, err
}

func (r *recorder) Txn(ctx context.Context, q *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if r.lost() {
		return nil, errors.New("the request was lost")
	}
	in, fenced := access{}, false
	for _, c := range q.Compare {
		if string(c.Key) == r.h.key && c.Target == pb.Compare_MOD && c.Result == pb.Compare_EQUAL {
			in.expect, fenced = c.GetModRevision(), true
		}
	}
	for _, op := range q.Success {
		if p := op.GetRequestPut(); p != nil && string(p.Key) == r.h.key {
			in.put, in.value = true, string(p.Value)
		}
	}
	call := r.h.now()
	a, err := r.KVClient.Txn(ctx, q, opts...)
	switch {
	case err != nil || r.lost():
		if in.put {
			r.note(call, in, answer{unknown: true})
		}
		return nil, cmp.Or(err, errors.New("the reply was lost"))
	case a.Succeeded && fenced:
		r.note(call, in, answer{now: register{a.Header.Revision, in.value}})
	case a.Succeeded:
		for i, op := range q.Success {
			if now, ok := r.seen(op.GetRequestRange(), a.Responses[i].GetResponseRange()); ok {
				r.note(call, access{read: true}, answer{now: now})
			}
		}
	}
	return a, nil
}

// listen puts a recorder between a client and its store.
func (h *history) listen(c *clientv3.Client, kv pb.KVClient, id int, loss float64) {
	h.now()
	c.KV = clientv3.NewKVFromKVClient(&recorder{KVClient: kv, h: h, id: id, loss: loss,
		dice: rand.New(rand.NewPCG(uint64(id), 0))}, c)
}

// start brings a node into a world until one starts.
func (n *node) start(ctx context.Context) error {
	for {
		if _, err := n.Join(ctx, time.Hour); err != nil {
			return err
		}
		_, err := n.Round(ctx, "go", nil, concat)
		if broken, ok := errors.AsType[*BrokenError](err); ok && broken != nil {
			continue
		}
		if err == nil {
			n.Start(ctx)
		}
		return err
	}
}

func TestTheEpochIsOneRegisterToAll(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		const runs, size, loss = 4, 3, 0.05
		h := &history{key: protocol.KeysOf(b.job).Epoch}
		ctx := short(t, time.Minute)
		id := 0
		connect := func(loss float64) *clientv3.Client {
			id++
			if m, ok := b.store.(memory); ok {
				link := m.s.Dial()
				dice := rand.New(rand.NewPCG(uint64(id), 1))
				link.SetFaults(func(any) (memstore.Fault, time.Duration) {
					return memstore.None, time.Duration(dice.IntN(20)) * time.Millisecond
				})
				c := link.Client()
				h.listen(c, link.KV(), id, loss)
				return c
			}
			c := b.store.connect(t)
			h.listen(c, clientv3.RetryKVClient(c), id, loss)
			return c
		}
		reads, stop := context.WithCancel(ctx)
		var readers, nodes sync.WaitGroup
		for range 2 {
			c := connect(0)
			readers.Go(func() {
				defer c.Close()
				for reads.Err() == nil {
					_, _, _ = Current(reads, c, b.job)
					time.Sleep(7 * time.Millisecond)
				}
			})
		}
		for run := range runs {
			for i := range size {
				n := b.enterBy(connect(loss), Member{Index: -1, Size: size, Host: fmt.Sprint("h", run, i)})
				nodes.Go(func() {
					if err := n.start(ctx); err != nil {
						t.Errorf("%s: %v", n.me().Host, err)
					}
					n.Leave("")
				})
			}
			nodes.Wait()
		}
		stop()
		readers.Wait()
		writes := 0
		for _, op := range h.ops {
			if op.Input.(access).put {
				writes++
			}
		}
		if writes < 3*runs { // each run opens, seals and starts
			t.Errorf("%d writes of the epoch were recorded", writes)
		}
		if got := porcupine.CheckOperationsTimeout(linear(), h.ops, 20*time.Second); got != porcupine.Ok {
			t.Errorf("%d operations: %v, want a linearizable history", len(h.ops), got)
		}
	})
}

// The check itself finds a stale read and a lost write.
func TestAHistoryThatNoRegisterHasIsFound(t *testing.T) {
	put := access{put: true, value: "1"}
	op := func(call, end int64, in access, out answer) porcupine.Operation {
		return porcupine.Operation{ClientId: int(call), Input: in, Call: call, Output: out, Return: end}
	}
	read := func(call, end int64, now register) porcupine.Operation {
		return op(call, end, access{read: true}, answer{now: now})
	}
	one := register{2, "1"}
	for _, tc := range []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"read after the write", []porcupine.Operation{op(1, 2, put, answer{now: one}), read(3, 4, one)}, true},
		{"stale read", []porcupine.Operation{op(1, 2, put, answer{now: one}), read(3, 4, register{})}, false},
		{"overlapping read", []porcupine.Operation{op(1, 4, put, answer{now: one}), read(2, 3, register{})}, true},
		{"two writes on one version", []porcupine.Operation{op(1, 2, put, answer{now: one}),
			op(3, 4, put, answer{now: register{3, "1"}})}, false},
		{"unknown, and carried out", []porcupine.Operation{op(1, math.MaxInt64, put, answer{unknown: true}), read(3, 4, one)},
			true},
		{"unknown, and not", []porcupine.Operation{op(1, math.MaxInt64, put, answer{unknown: true}), read(3, 4, register{})},
			true},
		{"unknown, and undone", []porcupine.Operation{op(1, math.MaxInt64, put, answer{unknown: true}), read(3, 4, one),
			read(5, 6, register{})}, false},
	} {
		if got := porcupine.CheckOperations(linear(), tc.ops); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
