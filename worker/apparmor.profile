# AppArmor profile for the worker in a container, for hosts with AppArmor (Debian, Ubuntu): the profiles of Docker and
# containerd deny mounts, which set up the files of a launch. Load it on the host, then name it for the container:
#
#   sudo cp apparmor.profile /etc/apparmor.d/svc-worker && sudo apparmor_parser --replace /etc/apparmor.d/svc-worker
#   docker run --security-opt apparmor=svc-worker ...           (Kubernetes: appArmorProfile, type Localhost)
#
# Apart from mounts it denies what the profile of Docker denies. The container has no capabilities, so the kernel allows
# mounts only in the user namespaces of launches.
#include <tunables/global>

profile svc-worker flags=(attach_disconnected,mediate_deleted) {
  #include <abstractions/base>

  network,
  capability,
  file,
  mount,
  umount,
  pivot_root,
  signal (receive) peer=unconfined,
  signal (send,receive) peer=svc-worker,
  ptrace (trace,read,tracedby,readby) peer=svc-worker,

  deny @{PROC}/* w,
  deny @{PROC}/{[^1-9],[^1-9][^0-9],[^1-9s][^0-9y][^0-9s],[^1-9][^0-9][^0-9][^0-9]*}/** w,
  deny @{PROC}/sys/[^k]** w,
  deny @{PROC}/sys/kernel/{?,??,[^s][^h][^m]**} w,
  deny @{PROC}/sysrq-trigger rwklx,
  deny @{PROC}/kcore rwklx,
  deny /sys/[^f]*/** wklx,
  deny /sys/f[^s]*/** wklx,
  deny /sys/fs/[^c]*/** wklx,
  deny /sys/fs/c[^g]*/** wklx,
  deny /sys/fs/cg[^r]*/** wklx,
  deny /sys/firmware/** rwklx,
  deny /sys/kernel/security/** rwklx,
}
