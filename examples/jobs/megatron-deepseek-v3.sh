# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The arguments of a Megatron-LM run that decide its memory: DeepSeek-V3 at 64K tokens on 256 GPUs. docs/megatron.md starts here.
TP=16
PP=8
torchrun --nproc-per-node 8 --nnodes 32 pretrain_gpt.py \
  --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} --expert-model-parallel-size 32 \
  --expert-tensor-parallel-size 1 --sequence-parallel --use-distributed-optimizer \
  --pipeline-model-parallel-layout "Et*2|(tt|)*22t|(tt|)*7mL" \
  --micro-batch-size 1 --global-batch-size 960 --seq-length 65536 \
  --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --swiglu \
  --vocab-size 129280 --make-vocab-size-divisible-by 3232 --untie-embeddings-and-output-weights \
  --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 \
  --num-experts 256 --moe-layer-freq "([0]*3+[1]*58)" --moe-ffn-hidden-size 2048 --moe-router-topk 8 \
  --moe-shared-expert-intermediate-size 2048 --mtp-num-layers 1 \
  --bf16 --fp8-format e4m3 --fp8-recipe blockwise --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 \
  --optimizer-cpu-offload --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
