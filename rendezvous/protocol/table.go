package protocol

// Rule is one row of the table of transitions.
type Rule struct {
	On   Kind
	In   []Phase // where the event has an effect
	Name string  // of the transition in docs/rendezvous.md and in the model
	Do   func(*Node, Event)
}

// Table finds the function of an event in a phase.
type Table [kinds][phases]func(*Node, Event)

// TableOf returns the table of some rules.
func TableOf(rules []Rule) *Table {
	t := new(Table)
	for _, r := range rules {
		for _, in := range r.In {
			t[r.On][in] = r.Do
		}
	}
	return t
}

// Rules returns all transitions. An event without a rule in its phase has no effect.
func Rules() []Rule {
	up, leads := []Phase{Following, Leading}, []Phase{Leading}
	session := []Phase{Down, Entering, Following, Leading}
	here := []Phase{Idle, Joining, Inside, Running}
	return []Rule{
		{Begin, []Phase{Down}, "begin", (*Node).begin},
		{Grant, []Phase{Entering}, "granted", (*Node).granted},
		{Register, []Phase{Entering}, "register", (*Node).registered},
		{Replace, []Phase{Entering}, "register", (*Node).replaced},
		{Contend, []Phase{Entering}, "contend", (*Node).await},
		{Await, []Phase{Entering}, "register again", (*Node).register},
		{Depose, up, "depose", (*Node).pass},
		{Elect, up, "campaign", (*Node).elected},
		{Rebind, up, "rebind", (*Node).elected},
		{Describe, up, "describe", (*Node).described},
		{Survey, []Phase{Following}, "hear members", (*Node).surveyed},
		{Reopen, leads, "open", (*Node).reopened},
		{Clear, leads, "places", (*Node).cleared},
		{Seat, leads, "places", (*Node).seated},
		{Seal, leads, "seal", (*Node).sealed},
		{Resign, leads, "resign", (*Node).resigned},
		{Reduce, leads, "reduce", (*Node).reduced},
		{Decide, leads, "go", (*Node).committed},
		{Finish, leads, "over", (*Node).committed},
		{Announce, leads, "announce", (*Node).pass},
		{Warn, leads, "warn", (*Node).warned},
		{Post, up, "post", (*Node).posted},
		{Control, up, "hear", (*Node).hear},
		{Own, up, "own key", (*Node).hearOwn},
		{Job, leads, "hear members", (*Node).hearJob},
		{Woken, up, "wake", (*Node).again},
		{Located, session, "locate", (*Node).locate},
		{Host, session, "host", (*Node).host},
		{Fail, session, "life ends", (*Node).fail},

		{Join, here, "join", (*Node).join},
		{Look, []Phase{Joining}, "look", (*Node).look},
		{ReadPlace, []Phase{Joining}, "read place", (*Node).placed},
		{ReadFirst, []Phase{Joining}, "other size", (*Node).sized},
		{ReadRunning, here, "last run", (*Node).ran},
		{ReadProgress, here, "time is up", (*Node).progressed},
		{Expire, here, "time is up", (*Node).expire},
		{Round, here, "round", (*Node).round},
		{Say, here, "round", (*Node).say},
		{Result, here, "result", (*Node).result},
		{GiveUp, here, "give up", (*Node).giveUp},
		{Withdraw, here, "give up", (*Node).withdrew},
		{Farewell, here, "last news", (*Node).farewell},
		{Start, here, "start", (*Node).start},
		{Acked, here, "acknowledge", (*Node).acked},
		{Exit, here, "command ends", (*Node).exit},
		{Exited, here, "command ends", (*Node).exited},
		{Follow, here, "follow", (*Node).follow},
		{Return, here, "return", (*Node).comeBack},
		{Leave, here, "leave", (*Node).leave},
	}
}
