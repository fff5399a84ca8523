package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// id names the job. An embedded store belongs to one job: without a job name its
// port is the name. So nodes that spell the host differently, or run different
// lines, join one job, and launch reports the difference. Many jobs share an etcd:
// there the name is a hash of what all nodes of the job share, endpoints and line.
func (r *resolver) id() error {
	line := said(r.line.RdzvID)
	if line.raw == "none" { // torchrun's own default
		line = claim{}
	}
	pet := r.petFor("PET_RDZV_ID")
	if pet.raw == "none" {
		pet = claim{}
	}
	if err := choosing(r, &r.job.ID, "id", explicit(r.in.Flags.Job), line, r.sched.id, pet); err != nil ||
		r.job.ID.Set {
		return err
	}
	if st := r.job.Store.V; st.Embedded {
		r.job.ID = derived("store-"+strconv.Itoa(st.Port), StoreAddress)
		return nil
	}
	words := append([]string{strings.Join(r.job.Store.V.Endpoints, ",")}, r.line.Everywhere()...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	r.job.ID = derived(hex.EncodeToString(sum[:5]), "store address and command")
	return nil
}
