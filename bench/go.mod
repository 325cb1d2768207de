module github.com/foilmcp/foil/bench

go 1.26.0

replace github.com/foilmcp/foil => ../

require (
	aidanwoods.dev/go-paseto v1.6.0
	github.com/foilmcp/foil v0.0.0-00010101000000-000000000000
	github.com/go-jose/go-jose/v4 v4.1.9
	github.com/gorilla/securecookie v1.1.2
	github.com/tink-crypto/tink-go/v2 v2.9.0
)

require (
	aidanwoods.dev/go-result v0.3.1 // indirect
	golang.org/x/crypto v0.53.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
