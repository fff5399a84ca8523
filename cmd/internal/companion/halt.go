package companion

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"launch/diagnose/scene"
	"launch/rendezvous"
)

// hangRound is the round in which node rank 0 says that the job ends because it hangs, and the others that they
// have heard it.
const hangRound = "hung"

const (
	// haltBudget is how long node rank 0 waits until all others have heard that the job ends.
	haltBudget = 10 * time.Second
	// heardBudget is how long another node waits until its answer is written.
	heardBudget = 2 * time.Second
	// heardPoll is the pause between two looks at which nodes have heard it.
	heardPoll = 300 * time.Millisecond
)

// Hang is why launch is to end the job.
type Hang struct {
	Why, Fix string
	Scenes   []scene.Scene // what all nodes saw, for the node that has judged
}

// Hung waits until the job is to end because it hangs; command is the PID of this node's command.
func (p *companion) Hung(command int, out *Hang) (err error) {
	defer p.call(&err)()
	p.command.Store(int64(command))
	ctx := p.running
	if p.world.Rank == 0 {
		select {
		case *out = <-p.doctor.hung:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	value, err := p.session.Await(ctx, hangRound, 0)
	if err != nil {
		return err
	}
	var n rendezvous.Note
	if err = json.Unmarshal(value, &n); err != nil {
		return fmt.Errorf("read why the job ends: %w", err)
	}
	n = n.Shortened()
	n.Clean()
	out.Why = n.Text
	p.session.Say(hangRound, []byte("{}"))
	heard, cancel := context.WithTimeout(ctx, heardBudget)
	defer cancel()
	_, _ = p.session.Await(heard, hangRound, p.world.Rank)
	return nil
}

// Halt says to the other nodes why the job ends, and waits until they have heard it.
func (p *companion) Halt(why string, _ *none) (err error) {
	defer p.call(&err)()
	value, err := json.Marshal(rendezvous.Note{Name: p.spec.Self.Host, Text: why}.Shortened())
	if err != nil {
		return err
	}
	p.session.Say(hangRound, value)
	ctx, cancel := context.WithTimeout(p.running, haltBudget)
	defer cancel()
	heard := map[int]bool{}
	for len(heard) < p.world.Size {
		select {
		case <-time.After(heardPoll):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes have not heard within %s that the job ends", p.world.Size-len(heard),
				p.world.Size, haltBudget)
		}
		if all, err := rendezvous.Ready(ctx, p.client, p.spec.Job, p.world.Epoch, hangRound); err == nil {
			heard = all
		}
	}
	return nil
}
