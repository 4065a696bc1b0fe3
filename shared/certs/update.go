package certs

import "context"

// DecodeUpdate is DecodeClients for a list that replaces a stored one. An input of an
// origin only stands for the stored certificate of the origin: its Client has no
// certificate until Complete adds it.
func DecodeUpdate(ctx context.Context, list []ClientInput) ([]Client, []Problem) {
	if problems := checkList(list, ClientInput.checkUpdate); len(problems) > 0 {
		return nil, problems
	}
	ctx, cancel := context.WithTimeout(ctx, decryptTimeout)
	defer cancel()
	clients := make([]Client, len(list))
	for i, input := range list {
		clients[i].Origin = input.Origin
		if input.originOnly() {
			continue
		}
		var problems []Problem
		if clients[i], problems = input.Decode(ctx); len(problems) > 0 {
			return nil, withIndex(i, problems)
		}
	}
	return clients, nil
}

// Complete adds the stored certificates to the result of DecodeUpdate.
func Complete(clients, stored []Client) (complete []Client, problems []Problem) {
	byAddress := make(map[string]Client, len(stored))
	for _, client := range stored {
		byAddress[client.Address()] = client
	}
	for i, client := range clients {
		if client.Cert == "" {
			old, ok := byAddress[client.Address()]
			if !ok {
				problems = append(problems, withIndex(i, []Problem{{"cert", "is required, or pfx: no certificate is stored for the origin"}})...)
			}
			client.Cert, client.Key = old.Cert, old.Key
		}
		complete = append(complete, client)
	}
	return complete, problems
}

func (c ClientInput) originOnly() bool { return c == ClientInput{Origin: c.Origin} }

func (c ClientInput) checkUpdate() []Problem {
	if c.originOnly() && address(c.Origin) != "" {
		return nil
	}
	return c.Check()
}
