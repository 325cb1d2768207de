package attack

import "github.com/foilmcp/foil"

// A Login is somebody who sends requests. The battery's cast is fixed; a server
// under attack maps each Bearer to its Principal.
type Login struct {
	// Name is for people who read the output.
	Name string
	// Bearer is the bearer token sent; empty means no credentials at all.
	Bearer string
	// Principal is who the server's login takes this to be.
	Principal foil.Principal
}

const (
	castIssuer = "https://login.example"
	castClient = "desk-app"
)

// The cast.
var (
	Alice = Login{"alice", "alice", foil.OAuth(castClient, castIssuer, "alice")}
	// AliceRenewed is Alice after her bearer token was renewed.
	AliceRenewed = Login{"alice, token renewed", "alice-renewed", Alice.Principal}
	// AliceElsewhere has the same subject at another issuer.
	AliceElsewhere = Login{"alice at another issuer", "alice-elsewhere", foil.OAuth(castClient, "https://other.example", "alice")}
	// AliceCertificate is a client certificate that happens to say alice.
	AliceCertificate = Login{"alice by certificate", "alice-certificate", foil.OAuth(castClient, "mtls:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", "alice")}
	// Bob is another user of another client.
	Bob = Login{"bob", "bob", foil.OAuth("phone-app", castIssuer, "bob")}
	// BobSameClient is another user of the same OAuth client.
	BobSameClient = Login{"bob, same client", "bob-same-client", foil.OAuth(castClient, castIssuer, "bob")}
	// Nobody sends no credentials.
	Nobody = Login{"nobody", "", foil.Anonymous()}
)

// castNames are what no log may say of them: who they are, to whom, by whose word.
var castNames = []string{"alice", "bob", castIssuer, "https://other.example", "mtls:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", castClient, "phone-app"}

// Cast returns all logins.
func Cast() []Login {
	return []Login{Alice, AliceRenewed, AliceElsewhere, AliceCertificate, Bob, BobSameClient, Nobody}
}

// LoginFor returns the login of a bearer token; "" is [Nobody].
func LoginFor(bearer string) (Login, bool) {
	for _, l := range Cast() {
		if l.Bearer == bearer {
			return l, true
		}
	}
	return Login{}, false
}
