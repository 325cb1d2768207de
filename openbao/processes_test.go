package openbao_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
)

// redeemerEnv makes the test binary a process that redeems; its value is the server's
// address.
const redeemerEnv = "FOIL_TEST_REDEEMER"

// redeemer redeems each claim that comes on standard input by callersEach callers at
// once, and says how many got the payload, were refused, and failed.
func redeemer() int {
	c, err := openbao.Open(context.Background(), &openbao.Options{Address: os.Getenv(redeemerEnv), Auth: openbao.Token(os.Getenv(redeemerEnv + "_TOKEN")), Timeout: patient})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	claims, err := openbao.OpenClaims(c, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var mu sync.Mutex
		var got, refused, failed int
		var wg sync.WaitGroup
		for i := range callersEach {
			wg.Go(func() {
				payload, err := claims.Redeem(context.Background(), in.Text(), fmt.Sprint("op ", os.Getpid(), i))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && string(payload) == "plan":
					got++
				case errors.Is(err, claimcheck.ErrRedeemed):
					refused++
				default:
					failed++
				}
			})
		}
		wg.Wait()
		fmt.Println(got, refused, failed)
	}
	return 0
}

const processes, callersEach = 4, 16

// TestOnePayloadForManyProcesses: of 64 redemptions of one claim over four processes
// one gets the payload, and all others are told that it is gone.
func TestOnePayloadForManyProcesses(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		self := must(os.Executable())(t)
		type process struct {
			in  *os.File
			out *bufio.Scanner
		}
		var all []process
		for range processes {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), redeemerEnv+"="+srv.Addr, redeemerEnv+"_TOKEN="+srv.Token)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdin = r
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
			t.Cleanup(func() { _ = w.Close(); _ = cmd.Wait() })
			p := process{w, bufio.NewScanner(out)}
			if !p.out.Scan() || p.out.Text() != "ready" {
				t.Fatalf("a process says %q", p.out.Text())
			}
			all = append(all, p)
		}
		claims := must(openbao.OpenClaims(client(t, srv), nil))(t)
		for round := range 20 {
			claim := must(claims.Issue(t.Context(), []byte("plan"), time.Hour))(t)
			for _, p := range all {
				if _, err := fmt.Fprintln(p.in, claim); err != nil {
					t.Fatal(err)
				}
			}
			var got, refused, failed int
			for _, p := range all {
				var a, b, c int
				if !p.out.Scan() {
					t.Fatal("a process ended")
				}
				if _, err := fmt.Fscan(strings.NewReader(p.out.Text()), &a, &b, &c); err != nil {
					t.Fatalf("a process says %q", p.out.Text())
				}
				got, refused, failed = got+a, refused+b, failed+c
			}
			if got != 1 || refused != processes*callersEach-1 || failed != 0 {
				t.Fatalf("round %d: %d got the payload, %d were refused, %d failed; want 1, %d, 0", round, got, refused, failed, processes*callersEach-1)
			}
		}
	})
}
