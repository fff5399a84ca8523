package mpi

func loginFaults() []fault {
	forget := func(tr *trial) { tr.Hosts[0].Sh("sed -i /host2/d /etc/ssh/ssh_known_hosts") }
	locked := func(tr *trial) { tr.Hosts[sick].Sh("rm /home/user/.ssh/authorized_keys") }
	return []fault{
		{
			name:   "a host key that is not known, at a terminal",
			inject: func(tr *trial) { forget(tr); tr.tty = true },
			says:   []string{"host key"},
		},
		{
			name: "a host key that is not known, without a terminal", short: "Open MPI 4.1",
			inject: forget,
			says:   []string{"host key"},
		},
		{
			name: "a host key that has changed",
			inject: func(tr *trial) {
				tr.Hosts[sick].Sh("rm /etc/ssh/ssh_host_key; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_key")
				tr.Hosts[sick].Sshd()
			},
			says: []string{"host key"},
		},
		{
			name: "a password wanted, at a terminal",
			inject: func(tr *trial) {
				locked(tr)
				tr.Hosts[sick].Sshd("PasswordAuthentication yes")
				tr.tty = true
			},
			says: []string{"password", "key", "log in", "permission denied"},
		},
		{
			name:   "no key that the host accepts",
			inject: locked,
			says:   []string{"permission denied", "key", "log in"},
		},
		{
			name: "an account without a shell",
			inject: func(tr *trial) {
				tr.Hosts[sick].Sh("sed -i '/^user/s|/bin/bash|/usr/sbin/nologin|' /etc/passwd")
			},
			says: []string{"shell", "account", "nologin"},
		},
		{
			name:   "a host that shuts down",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("echo System is going down >/etc/nologin") },
			says:   []string{"going down", "log in"},
		},
		{
			name: "a shell start-up that prints", short: "MPICH 5.0",
			inject: func(tr *trial) {
				tr.Hosts[sick].Sh("echo 'echo Welcome to the cluster' >>/home/user/.bashrc")
			},
			runs: Each, quiet: true,
		},
		{
			name:   "a shell start-up that hangs",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("echo 'sleep 1000' >>/home/user/.bashrc") },
			says:   []string{"shell", "start-up", "log in", "within", "no answer", "not answer"},
		},
		{
			name:   "a shell start-up that ends the shell",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("echo 'exit 3' >>/home/user/.bashrc") },
			says:   []string{"shell", "start-up", "exit"},
		},
		{
			name:   "a shell start-up that starts another shell",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("sed -i '1i exec sh' /home/user/.bashrc") },
			says:   []string{"/home/user/.bashrc:1: exec sh"},
		},
		{
			name: "an sshd that takes no more logins",
			inject: func(tr *trial) {
				tr.Hosts[sick].Sshd("MaxStartups 1:100:1")
				tr.Hosts[1].Sh("bash -c 'exec 3<>/dev/tcp/host2/22; read -u 3 x; exec sleep 600' >/dev/null 2>&1 & sleep 0.5")
			},
			says: []string{"MaxStartups", "closed", "ssh"},
		},
		{
			name:   "an sshd that does not answer",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("kill -STOP $(cat /run/sshd.pid)") },
			says:   []string{"sshd", "banner", "no answer", "not answer", "within", "timed out"},
		},
	}
}
