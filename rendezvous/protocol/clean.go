package protocol

import (
	"strings"
	"unicode"
)

// What people read of a node is cleaned once, where it arrives, so that no terminal, page or file of
// metrics gets characters that control it or that reverse text.

// printable returns a text of as many characters, none of which controls a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// clean makes texts printable.
func clean(texts ...*string) {
	for _, s := range texts {
		*s = printable(*s)
	}
}

func cleanAll(texts []string) {
	for i := range texts {
		clean(&texts[i])
	}
}

// Clean makes the texts of a member printable.
func (m *Member) Clean() {
	clean(&m.ID, (*string)(&m.Vouch), &m.Host, &m.Machine, &m.Started, &m.Phase, &m.Run, &m.Stands, &m.Bench, &m.Role,
		&m.Left)
}

// Clean makes the texts of a partner printable.
func (p *Partner) Clean() { clean(&p.ID, &p.Name, &p.Role) }

// Clean makes the texts of a place and of its partners printable.
func (p *Place) Clean() {
	p.Partner.Clean()
	for i := range p.Partners {
		p.Partners[i].Clean()
	}
}

// Clean makes the texts of an epoch and of its master printable.
func (ep *Epoch) Clean() {
	clean(&ep.Nonce, &ep.First, &ep.Run, &ep.Last, &ep.Why)
	if ep.Master != nil {
		ep.Master.Clean()
	}
}

// Clean makes the texts of a note printable.
func (n *Note) Clean() { clean(&n.Name, &n.Text) }

// Clean makes the texts of a report printable.
func (r *Report) Clean() {
	cleanAll(r.Here)
	for _, all := range [][]Member{r.Left, r.Waited} {
		for i := range all {
			all[i].Clean()
		}
	}
	for i := range r.Unfit {
		r.Unfit[i].Clean()
	}
}

// Clean makes the texts about late, lost and failed nodes printable.
func (l *Lateness) Clean() {
	clean(&l.Nonce)
	for _, texts := range [][]string{l.Who, l.Lost, l.Failed} {
		cleanAll(texts)
	}
}
