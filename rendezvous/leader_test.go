package rendezvous

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// With a tick of an hour no election follows from the time.
func TestTheStoreElectsItselfWithoutATick(t *testing.T) {
	s := &Server{dir: t.TempDir(), failed: make(chan error, 1)}
	c := s.config()
	c.TickMs = uint(time.Hour / time.Millisecond)
	etcd, err := newServer(c)
	if err != nil {
		t.Fatal(err)
	}
	s.etcd = etcd
	etcd.Start()
	defer etcd.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.lead(ctx); err != nil {
		t.Fatal(err)
	}
	if etcd.Leader() != etcd.MemberID() {
		t.Errorf("the leader is %s, not %s", etcd.Leader(), etcd.MemberID())
	}
}

func TestAWatchThatBeganBeforeARevisionShowsWhatFollowsIt(t *testing.T) {
	w := make(chan clientv3.WatchResponse, 4)
	events := func(revs ...int64) (r clientv3.WatchResponse) {
		for _, rev := range revs {
			r.Events = append(r.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: rev}})
		}
		return r
	}
	w <- events(3, 4)
	w <- events(5, 6, 7)
	w <- clientv3.WatchResponse{Canceled: true}
	close(w)
	var revs []int64
	var err error
	for r := range since(t.Context(), w, 5) {
		for _, e := range r.Events {
			revs = append(revs, e.Kv.ModRevision)
		}
		err = errors.Join(err, r.Err())
	}
	if !slices.Equal(revs, []int64{6, 7}) || err == nil {
		t.Errorf("revisions %v, error %v; want 6 and 7, and the end of the watch", revs, err)
	}
}
