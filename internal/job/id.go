package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// id names the job. Where nobody does, it is a hash of what all its nodes
// have in common, the meeting point and the line: two jobs that differ in
// either can share a store.
func (r *resolver) id() error {
	line := said(r.line.RdzvID)
	if line.raw == "none" { // torchrun's own default
		line = claim{}
	}
	pet := r.petFor("PET_RDZV_ID")
	if pet.raw == "none" {
		pet = claim{}
	}
	if err := choosing(r, &r.job.ID, "id", explicit(r.in.Flags.Job), line, r.sched.id, pet); err != nil || r.job.ID.Set {
		return err
	}
	words := append([]string{strings.Join(r.job.Store.V.Endpoints, ",")}, r.line.Everywhere()...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	r.job.ID = Value[string]{V: hex.EncodeToString(sum[:5]), From: Source{Derived, "meeting point and command"}, Set: true}
	return nil
}
