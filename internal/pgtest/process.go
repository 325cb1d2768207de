package pgtest

import (
	"os"
	"os/exec"
	"runtime"
)

// A process is a server that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// launch starts a server that ends with this process, where the system can do
// that. The thread that starts it must live as long, so a goroutine keeps it.
func launch(binary string, args []string, dir, log string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, f, f
	unprivileged(p.cmd)
	endWithParent(p.cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		_ = f.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // a server that was told to end says so by its status
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) signal(sig os.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
		return p.cmd.Process.Signal(sig)
	}
}
