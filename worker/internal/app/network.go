package app

import "github.com/browser-svc/svc/worker/internal/session"

// Network implements launch.Egress.
func (w egress) Network(limit int) session.Network {
	usage := w.Usage(limit)
	network := session.Network{Hosts: []session.NetworkHost{}, Proxy: proxyAddress(usage.Proxy)}
	network.Connections, network.BytesSent, network.BytesReceived, network.Denied = usage.Connections, usage.Sent, usage.Received, usage.Denied
	for _, host := range usage.Hosts {
		item := session.NetworkHost{
			Host: host.Host, Connections: host.Connections, BytesSent: host.Sent, BytesReceived: host.Received,
			Denied: []session.NetworkDenial{}, Proxy: proxyAddress(host.Proxy),
		}
		for _, rule := range host.Rules {
			item.Denied = append(item.Denied, session.NetworkDenial(rule))
		}
		network.Hosts = append(network.Hosts, item)
	}
	return network
}

// proxyAddress returns nil for no proxy.
func proxyAddress(address string) *string {
	if address == "" {
		return nil
	}
	return &address
}
