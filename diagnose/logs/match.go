package logs

import (
	"cmp"
	"sync"
)

// lexicon is the table of causes with the words that are looked for. It does not change, and is made once: that takes
// more time than to read most logs.
type lexicon struct {
	scan    *scanner
	outside *scanner // for the texts of exceptions
	byWord  [][]*cause
	special []string // by word: what it is as well as a word of causes
	steps   []bool   // by word: it is a sign of a job that computes
	hinted  []bool   // by word: it is one of a hint
}

var theLexicon = sync.OnceValue(func() *lexicon {
	var l lexicon
	l.scan, l.outside = newScanner(l.register(table())), newScanner(outsideWords)
	return &l
})

// register numbers the words that are looked for, and returns them.
func (l *lexicon) register(rows []cause) (words []string) {
	ids := map[string]int32{}
	id := func(w string) int32 {
		n, ok := ids[w]
		if !ok {
			n = int32(len(words))
			ids[w], words = n, append(words, w)
			l.byWord, l.special = append(l.byWord, nil), append(l.special, "")
			l.steps, l.hinted = append(l.steps, false), append(l.hinted, false)
		}
		return n
	}
	special := func(mark string, words ...string) {
		for _, w := range words {
			l.special[id(w)] = mark
		}
	}
	for i := range rows {
		c := &rows[i]
		c.row = i
		for _, w := range c.words {
			n := id(w)
			l.byWord[n] = append(l.byWord[n], c)
		}
		special(markMore, c.later...)
	}
	for _, w := range []string{wordTrace, wordRoot, wordError, wordException, wordInit, wordWatchdog, wordEnqueued,
		wordLastWork, wordHost, wordName, wordLastError, wordUsing} {
		special(w, w)
	}
	special(wordException, dotErrors, dotExceptions)
	special(markChain, chainWords...)
	special(markBox, boxWords...)
	special(markProof, proofWords...)
	special(markSSH, sshWords...)
	special(markReport, reportWords...)
	special(markPlaced, "uccessfully assigned ")
	special(markConfig, configWords...)
	special(markBus, " busId ")
	special(markFrame, "File \"")
	special(markProgress, progressWords...)
	for _, w := range stepWords {
		l.steps[id(w)] = true
	}
	for _, w := range hintWords {
		l.hinted[id(w)] = true
	}
	return words
}

// flood says whether all that a line can say was said often, or is of no interest.
func (f *follower) flood() bool {
	if len(f.busy) > 0 || len(f.hits) == 0 {
		return false
	}
	for _, h := range f.hits {
		if s := f.special[h]; s != "" && (s != markProgress || f.wanting > 0) {
			return false
		}
		for _, c := range f.byWord[h] {
			if f.count[c] < maxHits {
				return false
			}
		}
	}
	for _, h := range f.hits {
		for _, c := range f.byWord[h] {
			f.count[c]++
		}
	}
	return true
}

// match returns the weightiest cause of a line, and notes facts.
func (f *follower) match(p *prefix) (found *cause, vals map[string]string) {
	body, server := p.body, f.ofServer(p)
	for _, h := range f.hits {
		for _, c := range f.byWord[h] {
			if c.grade == unknown || c.frame || c.grade != fact && found != nil && !c.before(found) {
				continue
			}
			if server && c.client || !server && c.server {
				continue
			}
			v, ok := c.matches(body, f)
			switch {
			case !ok, c.login && f.unreached(cmp.Or(v["node"], p.node)):
			case c.grade == fact && c.here:
				f.hold(c.id, p.writer(), maxStreams)
			case c.grade == fact:
				f.note(c.id, v["v"])
			default:
				found, vals = c, v
			}
		}
	}
	if found != nil {
		return found, vals
	}
	for _, h := range f.hits {
		for _, c := range f.byWord[h] {
			if c.grade != unknown {
				continue
			}
			if v, ok := c.matches(body, f); ok {
				return c, v
			}
		}
	}
	return nil, nil
}

// shown says whether the logs have shown a fact.
func (f *follower) shown(fact string) bool { return len(f.facts[fact]) > 0 }

func (f *follower) note(name, value string) {
	f.latest[name] = value
	f.hold(name, value, maxFacts)
}

// hold adds a value to those of a fact, of which it holds so many.
func (f *follower) hold(name, value string, most int) {
	if f.facts[name] == nil {
		f.facts[name] = map[string]bool{}
	}
	if len(f.facts[name]) < most {
		f.facts[name][value] = true
	}
}
