// Package tenancy groups what belongs to an organization: members (org), keys
// (apikey), plans (plan), subscriptions and invoices (billing) and API usage (usage).
// Packages of api and app import it; they do not import each other. It starts no
// goroutine; apikey and usage lock their caches in memory, never during a statement.
package tenancy
