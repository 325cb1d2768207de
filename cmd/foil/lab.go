package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/lab"
)

func newLabCmd() *cobra.Command {
	var listen, export string
	var open bool
	c := &cobra.Command{
		Use:   "lab",
		Short: "Switch bindings on and off in a browser, and watch which attacks get through",
		Long: `Serve a page in which the bindings of a request state are switched on and off. Which
attacks then get through is computed in the browser, by minting and verifying real
tokens. The page works without a network and sends nothing to anybody; its key is
made in the browser and dies with the tab. Prints the page's address, and serves it
until interrupted.

Browsers give a page their cryptography on localhost and over HTTPS only. So the
address to listen on must be a loopback address; for others to see the page, export
it and serve the directory over HTTPS.`,
		Example: `  foil lab
  foil lab --open
  foil lab --listen 127.0.0.1:8400
  foil lab --export public/lab`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if export != "" {
				return exportLab(c, export)
			}
			return serveLab(c, listen, open)
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "loopback address and port to listen on; port 0 takes a free one")
	f.BoolVar(&open, "open", false, "open the page in the browser")
	f.StringVar(&export, "export", "", "write the page into this directory instead, for any static web server")
	c.MarkFlagsMutuallyExclusive("export", "listen")
	c.MarkFlagsMutuallyExclusive("export", "open")
	_ = c.MarkFlagDirname("export") // fails for an unknown flag only
	return c
}

func exportLab(c *cobra.Command, dir string) error {
	err := lab.Export(dir)
	if errors.Is(err, lab.ErrNotEmpty) {
		return usagef("--export %s: %w", dir, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "wrote the page to %s: serve it from localhost or over HTTPS\n", dir)
	return err
}

func serveLab(c *cobra.Command, address string, open bool) error {
	if err := loopback(address); err != nil {
		return err
	}
	defer stoppable(c)()
	listener, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	at := listener.Addr().(*net.TCPAddr)
	server := &http.Server{
		Handler:           lab.Handler(at.Port),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	url := "http://" + at.String() + "/"
	if _, err := fmt.Fprintln(c.OutOrStdout(), url); err != nil {
		_ = listener.Close()
		return err
	}
	if open {
		if err := browse(c.Context(), url); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "foil: no browser could be started (%v): open the address above yourself\n", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-c.Context().Done():
		_ = server.Close() // nothing is half done
		<-ended
		return nil
	}
}

// loopback refuses addresses that other machines can reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--listen must be an address and a port, as 127.0.0.1:0: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("--listen must be a loopback address, as 127.0.0.1:0: elsewhere a browser has no cryptography without HTTPS; to show the page to others, use --export")
	}
	return nil
}

// browse opens a page in the user's browser. It does not wait for it.
func browse(ctx context.Context, url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
