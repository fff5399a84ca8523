package companion

import (
	"context"
	"time"

	"launch/rendezvous"
)

// service is the name of the methods in this file to net/rpc.
const service = "Companion"

// call begins a call; the func that it returns ends it: launch sees earlier news, and err may cross the socket.
func (p *companion) call(err *error) (end func()) {
	p.busy.RLock()
	return func() {
		p.report(p.ctx, news{})
		*err = sent(*err)
		p.busy.RUnlock()
	}
}

// within returns the context of a call with a budget.
func (p *companion) within(budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, max(budget, time.Second))
}

// Next waits for the next news. launch asks for it once it has seen the last.
func (p *companion) Next(_ none, out *news) error {
	*out = <-p.news
	return nil
}

// Join waits for a world.
func (p *companion) Join(budget time.Duration, w *rendezvous.World) (err error) {
	defer p.call(&err)()
	if *w, err = p.session.Join(p.ctx, max(budget, time.Second)); err == nil {
		p.world = w
	}
	return err
}

// Everyone returns each node of the joined world.
func (p *companion) Everyone(budget time.Duration, out *answer) (err error) {
	defer p.call(&err)()
	ctx, cancel := p.within(budget)
	defer cancel()
	out.All, err = p.session.Everyone(ctx)
	return err
}

// Posted returns what some ranks have posted to a round.
func (p *companion) Posted(q question, out *answer) (err error) {
	defer p.call(&err)()
	ctx, cancel := p.within(q.Budget)
	defer cancel()
	out.Posts, err = p.session.Posted(ctx, q.Name, q.Ranks)
	return err
}

// round is a round in progress. launch reduces: it alone knows what posts mean.
type round struct {
	asks     chan [][]byte
	verdicts chan question
	over     chan none // closed with result and err
	result   []byte
	err      error
}

// Round begins or continues a round with launch's verdict. It returns the result, or posts for a verdict.
func (p *companion) Round(q question, out *answer) (err error) {
	defer p.call(&err)()
	known, continued := p.rounds.LoadOrStore(q.ID,
		&round{asks: make(chan [][]byte), verdicts: make(chan question), over: make(chan none)})
	r := known.(*round)
	if continued {
		select {
		case r.verdicts <- q:
		case <-r.over:
		}
	} else {
		ctx, cancel := p.within(q.Budget)
		p.wg.Go(func() {
			defer cancel()
			r.result, r.err = p.session.Round(ctx, q.Name, q.Value, r.reducer(ctx))
			close(r.over)
		})
	}
	select {
	case out.Posts = <-r.asks:
		return nil
	case <-r.over:
		p.rounds.Delete(q.ID)
		out.Result = r.result
		return r.err
	}
}

// reducer returns a function that asks launch, for as long as ctx allows.
func (r *round) reducer(ctx context.Context) rendezvous.Reduce {
	return func(posts [][]byte) (result []byte, start bool) {
		select {
		case r.asks <- posts:
		case <-ctx.Done():
			return nil, false
		}
		select {
		case v := <-r.verdicts:
			return v.Value, v.Start
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Handoff leaves the companion alone with the command.
func (p *companion) Handoff(none, *none) (err error) {
	defer p.call(&err)()
	close(p.handedOff)
	return nil
}

// Ended reports the status of this node's command.
func (p *companion) Ended(status int, _ *none) (err error) {
	defer p.call(&err)()
	p.ended.Store(true)
	p.session.Ended(status)
	return nil
}

// Fate waits until the run is over.
func (p *companion) Fate(command int, f *rendezvous.Fate) (err error) {
	defer p.call(&err)()
	p.ended.Store(false)
	p.command.Store(int64(command))
	*f, err = p.session.Fate(p.ctx, p.spec.Budget)
	return err
}

// Leave ends the companion.
func (p *companion) Leave(why string, _ *none) error {
	select {
	case p.leave <- why:
	default: // it leaves already
	}
	return nil
}
