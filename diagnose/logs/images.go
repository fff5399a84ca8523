package logs

// registryAnswers returns a row for an answer of a registry to enroot.
func registryAnswers(codes, says, do string) cause {
	return cause{id: "log.image-pull", grade: decisive, words: []string{"returned error code: "},
		form: re(`URL https?://(?P<host>[\w.:-]+)/v2/(?P<image>\S+?)/(?:manifests|blobs)/(?P<tag>\S+) ` +
			`returned error code: (?P<code>(?:` + codes + `)\b[\w ]*)`),
		says: says, do: do, from: "NVIDIA/enroot docker.sh"}
}

// imageCauses are reasons for which an image is not pulled, or a container not made.
var imageCauses = []cause{
	{
		id: "log.image-pull", grade: decisive, words: []string{"URL https://registry-1.docker.io/v2/"},
		form: re(`registry-1\.docker\.io/v2/(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?)/(?P<image>\S+?)/(?:manifests|blobs)/\S+ ` +
			`returned error code: (?P<code>\d+[\w ]*)`),
		says: "enroot looks for {host}/{image} on Docker Hub, which answers {code}: a # is missing after the registry's " +
			"name",
		do:   "write the image with a # after its registry: {host}#{image}:TAG",
		from: "NVIDIA/enroot cmd/import.md",
	},
	registryAnswers("401|403",
		"the registry {host} refuses the image {image} ({code}): the login is missing or wrong, or the name is wrong",
		"compare the image's name with what the registry lists, and put a login for {host} into enroot's .credentials "+
			"($ENROOT_CONFIG_PATH)"),
	registryAnswers("404",
		"the registry {host} has no image {image} with the tag {tag} ({code})",
		"compare name and tag with the registry: REGISTRY#NAME:TAG (an image of one part gets library/ before it). An old "+
			"enroot does not know images in OCI's format"),
	registryAnswers("429",
		"the registry {host} refuses more downloads for now ({code})",
		"import the image once to a file of a shared folder (enroot import), and start from that file; or log in"),
	registryAnswers(`5\d\d`,
		"the registry {host} fails ({code})",
		"try again; import the image once to a file of a shared folder, and start from that file"),
	{
		id: "log.plain-http", grade: family,
		words: []string{"wrong version number", "server gave HTTP response to HTTPS client",
			"first record does not look like a TLS handshake"},
		form: re(`(?:SSL|TLS|tls|https?)\b.*(?:wrong version number|HTTP response to HTTPS client|like a TLS handshake)`),
		says: "{who} asks a server by TLS that answers in plain text: a registry without TLS, a wrong port, or a proxy",
		do: "for a registry without TLS: ENROOT_ALLOW_HTTP=yes, or insecure-registries of Docker, or http:// in " +
			"containerd's hosts.toml; for a proxy: http:// in the value of https_proxy",
		need: []string{"curl -v of that server and port by http and by https, and env | grep -i proxy"},
		from: "openssl ssl3_get_record, Go crypto/tls",
	}, {
		id: "log.container-start", grade: decisive, words: []string{": command not found"},
		form: re(`sh: (?:line \d+: )?(?P<tool>(?:enroot-\w+|mksquashfs|unsquashfs|fuse-overlayfs|squashfuse|newuidmap|` +
			`nvidia-container-cli)): command not found`),
		says: "the container engine of {where} lacks the program {tool}",
		do:   "install {tool} on that node, in a folder of PATH (the programs enroot-* are of the package enroot+caps)",
		from: "NVIDIA/enroot",
	}, {
		id: "log.image-pull", grade: decisive, soft: true,
		words: []string{"Failed to pull image", "failed to pull and unpack image", "Error response from daemon: "},
		form: re(`(?:Failed to pull image|failed to pull and unpack image|Error response from daemon:)` +
			`(?: "(?P<image>[^"]+)")?` +
			`.*?(?P<why>toomanyrequests|429 Too Many|401 Unauthorized|403 Forbidden|pull access denied|no basic auth ` +
			`credentials|manifest unknown|no matching manifest[\w /]*|no such host|i/o timeout|connection refused|` +
			`x509: [\w ]+|manifest for \S+ not found|repository does not exist|no space left on device)`),
		says: "a node cannot pull an image[, {image}]: {why}",
		do: "correct what it names: the image's name and tag, the pull secret, the node's way to the registry, its " +
			"certificate, or the disk of the node",
		from: "containerd, moby",
	},
	{
		id: "log.image-pull", grade: decisive, with: "pyxis.import", words: []string{"pyxis:     "},
		form: re(`pyxis: {4,}(?:\[ERROR\] |mkdir: |enroot-[\w-]+: |bash: )` +
			`(?P<why>.*(?:No such|denied|failed|cannot|not found|No space).*)`),
		not:  []string{"Command not found: ", "returned error code"},
		says: "enroot cannot import the image on {where}: {why}",
		do: "correct what it names: a folder of enroot.conf that this user may write and that has room, a program of " +
			"that node, or the image's name",
		from: "NVIDIA/pyxis",
	},
	{
		id: "log.image-pull", grade: decisive, wraps: true, words: []string{"pyxis: failed to import docker image"},
		says: "a node cannot pull the image of {who}",
		do: "check the image's name (for pyxis a file begins with / or ./), the credentials, and the folders of enroot; " +
			"the lines below have the reason",
		from: "NVIDIA/pyxis",
	},
}
