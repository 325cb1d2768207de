package openbao

// ClaimOf is the claim of a wrapping token.
func ClaimOf(token string) string { return claimOf(token) }
