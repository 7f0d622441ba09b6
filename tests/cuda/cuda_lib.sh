# cuda_lib.sh: what the scripts about the CUDA target share. Sourced, not run. mpc compiles kernels by the stand-in for
# NVRTC; programs find the stand-in for the driver where they are told to: $twin.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/e2e_lib.sh"
twin=${MPC_TWIN:?the folder of the stand-ins}/libcuda_twin.so
export MPC_NVRTC_LIB=$MPC_TWIN/libnvrtc_twin.so
unset MPC_CUDA_LIB

# A small training with dropout, fp16 and a scaler, in the current folder.
write_model() {
    cat >net.mpt <<'MPT'
option epochs = 2
data points = csv("points.csv") -> (x: f32[6] = columns("a".."f"), y: u8)
module Net() {
    fc1  = Linear(6, 20)
    drop = Dropout(0.2)
    fc2  = Linear(20, 3)
    forward(x) { return fc2(drop(relu(fc1(x)))) }
}
model     = Net()
optimizer = AdamW(model.parameters(), lr = 0.01)
scaler    = GradScaler(init_scale = 1024)
for epoch in 0..epochs {
    for batch in loader(points, batch_size = 8, shuffle = true) {
        with autocast(f16) {
            loss = cross_entropy(model(batch.x), batch.y)
        }
        backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
        zero_grad(optimizer)
        log(loss)
    }
}
MPT
    awk 'BEGIN { srand(3); print "a,b,c,d,e,f,y"
        for (i = 0; i < 60; i++) { for (k = 0; k < 6; k++) printf "%.4f,", rand() * 2 - 1; print int(rand() * 3) } }' >points.csv
}
