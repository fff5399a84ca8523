package start

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/internal/finding"
	"launch/rendezvous"
)

// shares returns the store's name where the nodes choose the host among its addresses; nil: it is decided.
func (s *Start) shares() *companion.Shared {
	if !s.store.Contested {
		return nil
	}
	at := s.Job.Store.V
	return &companion.Shared{Host: at.Host, Port: at.Port, Known: s.store.Means, At: s.store.At}
}

// pickHost finds out, where the store's name has addresses of this node and of others, which of them hosts the store.
func (s *Start) pickHost(ctx context.Context) error {
	if s.store.Contested && s.munged(ctx) { // each store has a secret of its own: no node can move to another one
		s.store.Contested = false
	}
	if !s.store.Contested || len(s.store.Serve) == 0 || len(s.store.Others(s.Node)) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Opt.JoinTimeout)
	defer cancel()
	c, err := s.shares().Contest(s.noteStore(ctx, *s.store)).Choose(ctx)
	if err != nil {
		return err
	}
	s.store.Means = c.Known
	if c.Store != nil {
		s.store.Join(c.Store.At)
	}
	s.UI.Note("%s", chosen(s.Job.Store.V.Host, c, s.Node.IsLocal))
	for at, err := range c.Errors {
		if errors.Is(err, rendezvous.ErrToken) {
			s.UI.Note("a store of launch at %s is not this job's, or not all nodes have the same LAUNCH_TOKEN", at)
		}
	}
	return nil
}

// chosen says which node hosts the store.
func chosen(host string, c storeaddr.Choice, local func(netip.Addr) bool) string {
	text := fmt.Sprintf("%s has %d addresses: ", host, len(c.Known))
	switch {
	case c.Store != nil && c.Store.At == c.Known[0]:
		return text + fmt.Sprintf("%s, the first, hosts the store", c.Store.At)
	case c.Store != nil:
		return text + fmt.Sprintf("%s hosts the store", c.Store.At)
	case len(c.Silent) == 0:
		return text + fmt.Sprintf("this node, %s, the first, hosts the store", c.Known[0])
	}
	own := ""
	for _, a := range c.Known {
		if local(a) {
			own = ", " + a.String() + ","
			break
		}
	}
	return text + fmt.Sprintf("this node%s hosts the store, as no store answered at %s for %s", own,
		finding.Some(finding.Map(c.Silent, netip.Addr.String)), c.Waited.Round(100*time.Millisecond))
}

// moves returns whether an error is a reason to choose the host of the store again.
func moves(err error) bool {
	return errors.Is(err, companion.ErrYielded) || errors.Is(err, companion.ErrNamed)
}

// moveBudget bounds the look-up of the store's name by a node that moves, also after its join timeout.
const moveBudget = 5 * time.Second

// again registers this node where the store is by now, as often as it moves; it returns any other error.
func (s *Start) again(ctx context.Context, err error) error {
	for moves(err) {
		s.UI.Note("%v", err)
		if s.comp != nil {
			s.comp.Leave("")
		}
		s.comp, s.World, s.store, s.Opt.Token = nil, nil, nil, s.secret
		named := errors.Is(err, companion.ErrNamed)
		if _, err = s.find(ctx, max(time.Until(s.deadline), moveBudget)); err == nil {
			err = s.pickHost(ctx)
		}
		if err == nil && named && len(s.store.Serve) == 0 && !s.store.At.IsValid() {
			s.store.Contested = false // the address has arrived here since the start: this node waits as for any other name
		}
		if err == nil {
			err = s.enter(ctx)
		}
	}
	return err
}
