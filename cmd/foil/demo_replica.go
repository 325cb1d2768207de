package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// A replica is a process of this binary. It gets a line of JSON on its standard
// input, answers with one on its standard output, and lives until the input
// ends: when its parent is gone, however that came about, so is the replica.

// A replicaOrder is what the parent says first.
type replicaOrder struct {
	demoSetup
	// Scratch is a directory to remove if the parent dies without a farewell.
	Scratch string `json:"scratch"`
	// Debug is whether to log everything, for the attack that reads the log.
	Debug bool `json:"debug"`
}

// A replicaReport is what the replica says when it serves.
type replicaReport struct {
	URL string `json:"url"`
}

// farewell tells the replicas that the parent cleans up by itself.
const farewell = "bye\n"

func newDemoReplicaCmd() *cobra.Command {
	return &cobra.Command{
		Use: "replica", Hidden: true, Args: cobra.NoArgs,
		Short: "Serve as a replica of foil demo, which starts it",
		RunE: func(c *cobra.Command, _ []string) error {
			// A Ctrl-C at the terminal, and its end, reach all processes of
			// the group. The parent decides: its end closes the pipe.
			defer stoppable(c)()
			signal.Ignore(os.Interrupt, syscall.SIGHUP)
			return serveReplica(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
}

func serveReplica(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return usagef("a replica is started by foil demo, not by hand")
	}
	var order replicaOrder
	if err := json.Unmarshal(line, &order); err != nil {
		return usagef("a replica's orders: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	orphaned := make(chan bool, 1)
	go func() { // ends with the process
		last, _ := in.ReadString('\n')
		orphaned <- last != farewell
		cancel()
	}()

	level := slog.LevelInfo
	if order.Debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	site, err := newDemoSite(ctx, &order.demoSetup, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, site.Close())
	}
	server := &http.Server{Handler: site, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with Close
	if err := printJSON(stdout, replicaReport{URL: "http://" + listener.Addr().String() + demoPath}); err != nil {
		cancel()
	}
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	// Requests under way have no one to answer to any more.
	err = errors.Join(err, server.Close(), site.Close())
	select {
	case alone := <-orphaned:
		if alone && order.Scratch != "" {
			err = errors.Join(err, removeScratch(order.Scratch))
		}
	default:
	}
	return err
}

// removeScratch removes a directory that other replicas may be removing, or
// writing their last files to, at the same time.
func removeScratch(dir string) (err error) {
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			if _, gone := os.Stat(dir); errors.Is(gone, os.ErrNotExist) {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("remove %s: %w", dir, err)
}
