#!/bin/bash
# controllers.sh build KIND...: compile the controllers of kinds of jobs from their own modules to $LAB/controllers.
# controllers.sh start KIND...: run them in the lab that is up, outside its pods, with their CRDs.
# KIND: jobset, lws, trainjob (Kubeflow's trainer, on jobset), these with their webhooks; pytorchjob (Kubeflow's
# training-operator), mpijob (mpi-operator), vcjob (Volcano's controllers and scheduler), these without.
set -euo pipefail
. "$(dirname "$0")/env.sh"
declare -A MODULE=([jobset]=sigs.k8s.io/jobset@v0.10.1 [lws]=sigs.k8s.io/lws@v0.7.0
  [pytorchjob]=github.com/kubeflow/training-operator@v1.8.1 [mpijob]=github.com/kubeflow/mpi-operator@v0.6.0
  [vcjob]=volcano.sh/volcano@v1.10.0 [trainjob]=github.com/kubeflow/trainer/v2@v2.0.0)
declare -A MAIN=([jobset]=. [lws]=./cmd [pytorchjob]=./cmd/training-operator.v1 [mpijob]=./cmd/mpi-operator
  [vcjob]="./cmd/controller-manager ./cmd/scheduler" [trainjob]=./cmd/trainer-controller-manager)
declare -A CRDS=([jobset]=config/components/crd/bases [lws]=config/crd/bases
  [pytorchjob]=manifests/base/crds/kubeflow.org_pytorchjobs.yaml [mpijob]=manifests/base/kubeflow.org_mpijobs.yaml
  [vcjob]="config/crd/volcano/bases config/crd/jobflow/bases" [trainjob]="manifests/base/crds/trainer*")
declare -A HOOKS=([jobset]=config/components/webhook/manifests.yaml [lws]=config/webhook/manifests.yaml
  [trainjob]=manifests/base/webhook/manifests.yaml)
declare -A NEEDS=([trainjob]=jobset) # another controller
declare -A GROUP=([jobset]=config.jobset.x-k8s.io/v1alpha1 [lws]=config.lws.x-k8s.io/v1alpha1)
declare -A PORT=([jobset]=9510 [lws]=9520 [pytorchjob]=9530 [mpijob]=9540 [vcjob]=9550 [trainjob]=9560) # of the webhooks; the next two are for metrics and health
# module prints the folder of a controller's module. The proxy is asked for this version alone, not for a list of all.
module() { (cd / && go mod download -json "${MODULE[$1]}" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); }
build() {
  local d=$LAB/controllers/$1 src=$LAB/controllers/$1.src
  [ -z "${NEEDS[$1]:-}" ] || build "${NEEDS[$1]}"
  [ ! -d "$d" ] || return 0
  rm -rf "$src"; mkdir -p "${d%/*}"; cp -r "$(module "$1")" "$src"; chmod -R u+w "$src"; mkdir -p "$src/out"
  (cd "$src" && CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false -p=${JOBS:-1}" nice -n 15 go build -ldflags "-s -w" -o out/ ${MAIN[$1]})
  mv "$src/out" "$d"; rm -rf "$src"
}
start() {
  local n=$1 d=$VAR/cp/$1 p=${PORT[$1]} need=${NEEDS[$1]:-} src c
  [ -z "$need" ] || [ -e "$VAR/cp/$need" ] || start "$need"
  src=$(module $n)
  mkdir -p "$d"
  export KUBECONFIG=$VAR/pki/admin.kubeconfig
  (cd "$src"; for c in ${CRDS[$n]}; do in_ns cp kubectl apply --server-side -f "$c" >/dev/null; done)
  waitfor 1 "$n: its kinds are known" in_ns cp kubectl wait --for=condition=Established crd --all --timeout=30s
  if [ -n "${GROUP[$n]:-}" ]; then start_sig; else start_$n; fi
}
# start_sig runs a controller of a Kubernetes SIG, which takes its certificate from a folder.
start_sig() {
  cd "$VAR/pki"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$d/tls.key" -out "$d/csr" -subj /CN=$n 2>/dev/null
  openssl x509 -req -in "$d/csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$d/tls.crt" -extfile <(echo "subjectAltName=IP:127.0.0.1") 2>/dev/null
  cat > "$d/config.yaml" <<C
apiVersion: ${GROUP[$n]}
kind: Configuration
webhook: {port: $p, certDir: "$d"}
metrics: {bindAddress: "127.0.0.1:$((p+1))"}
health: {healthProbeBindAddress: "127.0.0.1:$((p+2))"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
C
  bg cp $n "$LAB/controllers/$n/$([ $n = lws ] && echo cmd || echo jobset)" --config="$d/config.yaml"
  waitfor 60 "$n: ready" in_ns cp busybox wget -q -O- http://127.0.0.1:$((p+2))/readyz
  hooks ca.crt | in_ns cp kubectl apply -f - >/dev/null
}
# hooks CA prints a controller's webhooks, at its port of this machine, with a certificate of this CA.
hooks() {
  awk -v n=$n -v port=$p -v ca="$(base64 -w0 < "$1")" '
    /^  name: (mutating|validating)-webhook-configuration/ { print $0 "-" n; next }
    /^    service:/ { service = 1; print "    caBundle: " ca; next }
    service && /path:/ { service = 0; print "    url: https://127.0.0.1:" port $2; next }
    service { next }
    { print }' "$src/${HOOKS[$n]}"
}
# start_pytorchjob runs the training-operator, which makes its certificate, puts it into a Secret, and waits until the
# Secret is mounted.
start_pytorchjob() {
  local certs=/tmp/k8s-webhook-server
  [ -d $certs ] || { mkdir -p $certs; echo $certs >> "$VAR/made"; }
  in_ns cp mount -t tmpfs tmpfs $certs; in_ns cp mkdir $certs/serving-certs
  in_ns cp kubectl apply -f - >/dev/null <<'C'
{apiVersion: v1, kind: Namespace, metadata: {name: kubeflow}}
---
{apiVersion: v1, kind: Secret, metadata: {name: training-operator-webhook-cert, namespace: kubeflow}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validator.training-operator.kubeflow.org}
webhooks:
- name: none.training-operator.kubeflow.org # the operator wants to see one; this one is asked nothing
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: none, namespace: kubeflow}}
  rules: [{apiGroups: [none.kubeflow.org], apiVersions: [v1], operations: [CREATE], resources: [nones]}]
C
  # busybox's nslookup fails where a name is not known below each domain of the search list; Alpine's does not.
  cat > "$d/init.yaml" <<'C'
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command: [sh, -c, 'until nslookup {{.MasterAddr}}.default.svc.cluster.local; do sleep 2; done']
C
  bg cp $n env MY_POD_NAMESPACE=kubeflow "$LAB/controllers/$n/training-operator.v1" --enable-scheme=pytorchjob --webhook-server-port=$p \
    --metrics-bind-address=127.0.0.1:$((p+1)) --health-probe-bind-address=127.0.0.1:$((p+2)) --pytorch-init-container-image=k8slab/busybox:1 \
    --pytorch-init-container-template-file="$d/init.yaml"
  waitfor 60 "$n: its certificate is made" in_ns cp sh -c 'for f in ca.crt tls.key tls.crt; do
    kubectl -n kubeflow get secret training-operator-webhook-cert -o "jsonpath={.data.$(echo $f | sed "s/\./\\\\./")}" | base64 -d > '$certs'/serving-certs/$f &&
    [ -s '$certs'/serving-certs/$f ] || exit 1; done'
  waitfor 120 "$n: ready" in_ns cp busybox wget -q -O- http://127.0.0.1:$((p+2))/readyz
}
# start_trainjob runs Kubeflow's trainer, with the runtime for torch that its module has. It keeps the certificate of
# its Secret if that is good for 90 days and for the name of its CA, whose key is one of PKCS #1. pytorchjob's folder of
# certificates has the same name, hence a mount of its own.
start_trainjob() {
  local certs=/tmp/k8s-webhook-server own=$d/certs/serving-certs
  [ -d $certs ] || { mkdir -p $certs; echo $certs >> "$VAR/made"; }
  mkdir -p "$own"
  openssl genrsa -traditional -out "$own/tls.key" 2048 2>/dev/null
  openssl req -x509 -key "$own/tls.key" -days 365 -out "$own/tls.crt" -subj /CN=$n \
    -addext "subjectAltName=DNS:kubeflow-trainer-ca,DNS:kubeflow-trainer-controller-manager.kubeflow-system.svc,IP:127.0.0.1" 2>/dev/null
  in_ns cp kubectl create namespace kubeflow-system >/dev/null
  in_ns cp kubectl -n kubeflow-system create secret generic kubeflow-trainer-webhook-cert --from-file="$own" \
    --from-file=ca.crt="$own/tls.crt" --from-file=ca.key="$own/tls.key" >/dev/null
  hooks "$own/tls.crt" | sed "s/validating-webhook-configuration-$n/validator.trainer.kubeflow.org/" |
    in_ns cp kubectl apply -f - >/dev/null
  bg cp $n unshare -m sh -c 'mount --bind "$0" '$certs' && exec "$@"' "$d/certs" "$LAB/controllers/$n/trainer-controller-manager" \
    --webhook-server-port=$p --health-probe-bind-address=127.0.0.1:$((p+2))
  waitfor 120 "$n: ready" in_ns cp busybox wget -q -O- http://127.0.0.1:$((p+2))/readyz
  waitfor 60 "$n: its runtime for torch is there" in_ns cp kubectl apply -f "$src/manifests/base/runtimes/torch_distributed.yaml"
}
start_mpijob() {
  in_ns cp kubectl create namespace mpi-operator >/dev/null
  bg cp $n "$LAB/controllers/$n/mpi-operator" --kubeConfig="$KUBECONFIG" --monitoring-port=$((p+1))
  waitfor 60 "$n: it is healthy" in_ns cp busybox wget -q -O- http://127.0.0.1:8080/healthz
}
start_vcjob() {
  in_ns cp kubectl create namespace volcano-system >/dev/null
  bg cp $n "$LAB/controllers/$n/controller-manager" --kubeconfig="$KUBECONFIG" --leader-elect=false --enable-healthz \
    --healthz-address=127.0.0.1:$p
  cat > "$d/scheduler.conf" <<'C'
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
C
  bg cp $n-scheduler "$LAB/controllers/$n/scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false --enable-healthz \
    --healthz-address=127.0.0.1:$((p+1)) --listen-address=127.0.0.1:$((p+2)) --scheduler-conf="$d/scheduler.conf" \
    --cache-dumper=false
  waitfor 60 "$n: controllers are healthy" in_ns cp busybox wget -q -O- http://127.0.0.1:$p/healthz
  waitfor 60 "$n: scheduler is healthy" in_ns cp busybox wget -q -O- http://127.0.0.1:$((p+1))/healthz
}
do=$1; shift
for name in "$@"; do "$do" "$name"; done
