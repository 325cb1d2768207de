//go:build unix

package redis_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/redis"
)

func noSecret(t *testing.T, err error) {
	t.Helper()
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, password) {
		t.Errorf("error holds the password")
	}
}

func TestPasswordIsNotInTheURLOfAnError(t *testing.T) {
	for _, dsn := range []string{
		"redis://user:" + password + "@host:port/0", "redis://user:" + password + "@host/x", "http://user:" + password + "@host", "\x7f://:" + password + "@h",
		"redis://user:" + password + "@127.0.0.1:1/0?nonsense=1", "redis://user:" + password + "@127.0.0.1:1/0", "user:" + password + "@host", "redis://:" + url.PathEscape(password) + "%zz@h",
	} {
		_, err := redis.Open(t.Context(), dsn, &redis.Options{Timeout: time.Second})
		if err == nil {
			t.Errorf("Open of a bad DSN: no error")
		} else {
			noSecret(t, err)
		}
	}
}
