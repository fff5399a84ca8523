package rendezvous

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"launch/rendezvous/protocol"
)

const (
	// noteTTL is how long a note outlives the node that wrote it. A waiting leader
	// remembers it until that node joins; a later run, after the cause was fixed,
	// must not read it.
	noteTTL = time.Minute
	// Linger is how long the store stays up after its host has given up the job. Late
	// nodes read why, and do not wait for a store: the nodes of one job join within
	// seconds of each other.
	Linger = 10 * time.Second
	// lonely is how long the store stays up after its host has given up the job, but the others have not, and no node
	// comes: those that wait try again within two pauses.
	lonely = 2*protocol.RetryMax + 2*time.Second
)

// WriteNote writes a note for the nodes that wait, or join within a minute. It
// makes two requests, registers nothing, and ends with ctx.
func WriteNote(ctx context.Context, cli *clientv3.Client, job string, n Note) error {
	n = n.Shortened()
	lease, err := cli.Grant(timeout(ctx), int64(noteTTL/time.Second))
	if err == nil {
		_, err = cli.Put(timeout(ctx), protocol.KeysOf(job).Note(n.Index, n.Name), encode(n), clientv3.WithLease(lease.ID))
	}
	if err != nil {
		return fmt.Errorf("tell the other nodes why this one does not join: %w", reason(ctx, err))
	}
	return nil
}

// WriteNote writes a note into this store itself, for a host that does not reach its own address.
func (s *Server) WriteNote(ctx context.Context, job string, n Note) error {
	n = n.Shortened()
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, err := s.gate.kv.Put(ctx, &pb.PutRequest{Key: []byte(protocol.KeysOf(job).Note(n.Index, n.Name)),
		Value: []byte(encode(n))})
	return err
}

// Notes returns the notes of a job. Where nodes wait, it returns what their leader
// publishes: the leader knows which of them have joined since.
func Notes(ctx context.Context, cli *clientv3.Client, job string, waiting bool) ([]Note, error) {
	k := protocol.KeysOf(job)
	if waiting {
		reports, err := read[protocol.Report](ctx, cli, "read the notes", k.Progress)
		if len(reports) == 0 {
			return nil, err
		}
		return reports[0].Unfit, nil
	}
	return read[Note](ctx, cli, "read the notes", k.Notes, clientv3.WithPrefix(), clientv3.WithLimit(few))
}

// AwaitReaders waits until all other nodes of the job have joined at an embedded store, or
// written a note there, and have left. me is this node's ID or name.
func AwaitReaders(ctx context.Context, cli *clientv3.Client, job, me string, others int) {
	k := protocol.KeysOf(job)
	joined, here := map[string]bool{}, map[string]bool{}
	// An embedded store retains its history, but for what is old where there is much of it.
	for from := int64(1); from > 0; {
		w := cli.Watch(ctx, k.Root, clientv3.WithPrefix(), clientv3.WithRev(from))
		from = 0
		for r := range w {
			from = r.CompactRevision
			for _, e := range r.Events {
				key, gone := string(e.Kv.Key), e.Type == clientv3.EventTypeDelete
				m, isNode := decoded[Member](e.Kv.Value)
				n, isNote := decoded[Note](e.Kv.Value)
				switch {
				case gone:
					delete(here, key)
				case strings.HasPrefix(key, k.Members) && isNode && m.ID != me:
					joined[m.ID], here[key] = true, m.Left == ""
				case strings.HasPrefix(key, k.Notes) && isNote && n.Name != me:
					joined[key] = true
				}
				maps.DeleteFunc(here, func(_ string, waits bool) bool { return !waits })
			}
			if len(joined) >= others && len(here) == 0 {
				return
			}
		}
	}
}

// AwaitTold waits until the other nodes of a job, which wait on, have joined at an embedded store and read the note of
// this node there: for as long as ctx, and not long where no node comes. me is this node's name.
func AwaitTold(ctx context.Context, cli *clientv3.Client, job, me string, others int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alone := time.AfterFunc(lonely, cancel)
	defer alone.Stop()
	k := protocol.KeysOf(job)
	for r := range cli.Watch(ctx, k.Root, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, e := range r.Events {
			if e.Type != clientv3.EventTypePut {
				continue
			}
			key := string(e.Kv.Key)
			if strings.HasPrefix(key, k.Members) {
				alone.Stop()
			}
			p, ok := decoded[protocol.Report](e.Kv.Value)
			if key == k.Progress && ok && p.Joined >= others &&
				slices.ContainsFunc(p.Unfit, func(n Note) bool { return n.Name == me }) {
				awaits(ctx, nil, lastWords)
				return
			}
		}
	}
}
