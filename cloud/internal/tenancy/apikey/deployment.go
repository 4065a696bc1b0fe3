package apikey

// composeTemplate is a docker compose file of one worker. Its verbs are the image, the
// placeholder for the key, and the URL of the cloud.
const composeTemplate = `services:
  worker:
    image: %[1]q
    restart: unless-stopped
    environment:
      SVC_KEY: %[2]q
      API_KEY: ${API_KEY:-} # the worker key, which clients send; default: SVC_KEY
      SVC_CLOUD_URL: %[3]q
      PUBLIC_URL: http://localhost:38923 # the URL at which clients reach the worker
    ports: ["127.0.0.1:38923:38923"]
    volumes: ["worker:/data"]
    shm_size: 2g
    security_opt: ["seccomp:worker/seccomp.json", "systempaths=unconfined"] # for the isolation of launches
    stop_grace_period: 80s
    healthcheck:
      test: ["CMD", "svc-worker", "health", "--live"]
      interval: 5s
      timeout: 5s
      start_period: 60s

volumes:
  worker: {}
`

// kubernetesTemplate is the Kubernetes manifest of one worker. It has the same verbs.
const kubernetesTemplate = `apiVersion: v1
kind: Secret
metadata:
  name: svc-worker
stringData:
  SVC_KEY: %[2]q
  # API_KEY is the worker key, which clients send. Default: SVC_KEY.
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: svc-worker
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 10Gi
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: svc-worker
spec:
  replicas: 1
  strategy:
    type: Recreate
  selector:
    matchLabels:
      app: svc-worker
  template:
    metadata:
      labels:
        app: svc-worker
    spec:
      terminationGracePeriodSeconds: 80
      securityContext:
        fsGroup: 65532
        # For the isolation of launches. Copy worker/seccomp.json to
        # /var/lib/kubelet/seccomp/svc-worker.json on each node.
        seccompProfile:
          type: Localhost
          localhostProfile: svc-worker.json
      containers:
        - name: worker
          image: %[1]q
          ports:
            - containerPort: 38923
          envFrom:
            - secretRef:
                name: svc-worker
          env:
            - name: SVC_CLOUD_URL
              value: %[3]q
            - name: PUBLIC_URL # the URL at which clients reach the worker
              value: http://svc-worker:38923
          readinessProbe:
            httpGet:
              path: /readyz
              port: 38923
            periodSeconds: 5
          livenessProbe:
            httpGet:
              path: /livez
              port: 38923
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          volumeMounts:
            - name: data
              mountPath: /data
            - name: shm
              mountPath: /dev/shm
      volumes:
        - name: data
          persistentVolumeClaim:
            claimName: svc-worker
        - name: shm
          emptyDir:
            medium: Memory
            sizeLimit: 2Gi
---
apiVersion: v1
kind: Service
metadata:
  name: svc-worker
spec:
  publishNotReadyAddresses: true # the browsers of a full worker stay reachable
  selector:
    app: svc-worker
  ports:
    - port: 38923
`
