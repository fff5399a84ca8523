package logs

const downloadDo = "fetch it before the job to a folder that all nodes have, and name that folder (a local path, " +
	"HF_HOME, " +
	"with HF_HUB_OFFLINE=1); or give the nodes a way out: a proxy (https_proxy), and a name server that knows the internet"

// downloadCauses are models and data that a job asks the internet for.
var downloadCauses = []cause{
	{
		id: "log.clock", grade: family, soft: true, words: []string{"certificate is not yet valid"},
		not:  []string{"WARN", "etrying"},
		says: "the certificate of a server is not yet valid for {who}: the clock of {where} is behind",
		do:   "compare date with that of another host, and let chrony or NTP set it (chronyc tracking, timedatectl)",
		need: []string{"date on that node and on another host"},
		from: "openssl X509_V_ERR_CERT_NOT_YET_VALID",
	}, {
		id: "log.download", grade: family, soft: true, words: []string{"certificate verify failed: ",
			"SSL certificate problem: "},
		form: re(`(?:host=\\?'(?P<host>[\w.-]+)'.*)?certificate (?:verify failed|problem): ` +
			`(?P<why>self[- ]signed certificate in certificate chain|` + // without these words, the server's own
			`unable to get (?:local )?issuer certificate)`),
		not: []string{".local", ".svc", ".internal", "wandb", "etrying"},
		says: "{who} does not trust the certificate of a server[, {host}] ({why}): as a rule a proxy of the site answers " +
			"in its place with a certificate of its own, or the image has no list of CAs",
		do: "give the job the CA of that proxy, in the container too: REQUESTS_CA_BUNDLE and SSL_CERT_FILE name a file " +
			"with it (update-ca-certificates; the package ca-certificates). Or " + downloadDo,
		need: []string{"who has issued the certificate: openssl s_client -connect HOST:443 on a node of the job"},
		from: "openssl X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN",
	}, {
		id: "log.download", grade: family, soft: true, words: []string{"ostname mismatch, certificate is not valid for "},
		form: re(`certificate is not valid for \\?'(?P<host>[\w.-]+)`),
		not:  []string{"wandb", "etrying"},
		says: "another server answers {who} in the place of {host}, with a certificate of another name: the way to the " +
			"internet leads over a proxy or a portal, or a name server gives its address",
		do: "set https_proxy and HTTPS_PROXY for the job as in a shell where curl -sI https://{host} works; or " +
			downloadDo,
		need: []string{"getent hosts {host} and curl -sI https://{host} on a node of the job, and env | grep -i proxy"},
		from: "openssl X509_V_ERR_HOSTNAME_MISMATCH",
	}, {
		id: "log.download", grade: family, soft: true, words: []string{"ConnectionPool(host=", "annot connect to host "},
		form: re(`(?:HTTPS?ConnectionPool\(host=\\?'|annot connect to host )(?P<host>[\w-]+(?:\.[\w-]+)+)\b.*` +
			`(?:[Nn]ame resolution|Name or service not known|[Ff]ailed to resolve|nodename nor servname|No address associated)`),
		not: []string{".local", ".svc", ".internal", "wandb", "etrying"},
		says: "{who} cannot download what it needs from {host}: the name server of the node does not know that name, as a " +
			"rule since the node has no way to the internet",
		do:   downloadDo,
		need: []string{"getent hosts {host} and curl -sI https://{host} on a node of the job"},
		from: "urllib3, aiohttp, EAI_AGAIN",
	}, {
		id: "log.download", grade: family, soft: true, words: []string{"ConnectionPool(host="},
		form: re(`HTTPS?ConnectionPool\(host=\\?'(?P<host>[\w-]+(?:\.[\w-]+)+)\b.*[Tt]imed out`),
		not:  []string{".local", ".svc", ".internal", "wandb", "etrying"},
		says: "{who} got no answer from {host} in time: the way to it (proxy, firewall), its load, or its limit of requests",
		do:   downloadDo,
		need: []string{"curl -sI https://{host} on a node of the job", "how many ranks ask at the same time"},
		from: "urllib3 ReadTimeoutError",
	}, {
		id: "log.download", grade: family, words: []string{"TimeoutError"},
		form: re(`^(?:fsspec\.exceptions\.FSTimeoutError|botocore\.exceptions\.(?:Read|Connect)TimeoutError|` +
			`aiohttp\.\S*TimeoutError|azure\.core\.exceptions\.\w*TimeoutError)(?:: (?:.*URL: "(?P<url>[^"]+)".*|.*)|$)`),
		says: "{who} got no data from a remote storage[ ({url})] in time: its load, its limit of requests, or the way to it",
		do: "copy the data to a file system of the cluster before the job; else fewer workers that read at once, longer " +
			"time-outs and more attempts (for S3 botocore's read_timeout and retries)",
		need: []string{"the time that a read takes from that node", "how many processes read at the same time"},
		from: "fsspec, botocore, aiohttp",
	}, {
		id: "log.offline-mode", grade: family, soft: true,
		words: []string{"ffline mode is enabled", "outgoing traffic has been disabled"},
		form: re(`(?:OfflineModeIsEnabled|Error|[Cc]annot (?:reach|find)|ouldn't reach|ould not reach)\b.*` +
			`(?:[Oo]ffline mode is enabled|traffic has been disabled)`),
		not: []string{"arning"},
		says: "{who} may not download (offline mode: HF_HUB_OFFLINE or local_files_only), and what it needs is not, or not " +
			"wholly, in its cache on {where}",
		do: "fetch the model and its data to the cache that the job uses (HF_HOME, the same folder in the container and on " +
			"all nodes), or name a local path; or unset HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE and HF_DATASETS_OFFLINE",
		need: []string{"env | grep -E '^HF_|OFFLINE' of a rank, and ls of that cache on its node",
			"the version of huggingface_hub that filled the cache, and of the one in the job"},
		from: "huggingface_hub errors.py, utils/_http.py",
	},
}
