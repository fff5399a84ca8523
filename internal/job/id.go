package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"launch/internal/setting"
)

// id names the job. A store that a node hosts is one job's: where nobody gives
// that job a name it is called by the store's port, so that nodes which spell
// the host differently, or type different lines, meet all the same and are
// told. An etcd is shared by many jobs: there the name is a hash of what all
// nodes of this one have in common, the endpoints and the line.
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
	if st := r.job.Store.V; st.Embedded {
		r.job.ID = setting.Value[string]{V: "store-" + strconv.Itoa(st.Port), From: setting.Source{Tier: setting.Derived, Name: MeetingPoint}, Set: true}
		return nil
	}
	words := append([]string{strings.Join(r.job.Store.V.Endpoints, ",")}, r.line.Everywhere()...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	r.job.ID = setting.Value[string]{V: hex.EncodeToString(sum[:5]), From: setting.Source{Tier: setting.Derived, Name: "meeting point and command"}, Set: true}
	return nil
}
