/* Compiled by a test where libibverbs-dev is installed: abi.h against the
 * library's own header. It links with nothing and is never run. */
#include <infiniband/verbs.h>

#include "../abi.h"

#define SAME(ours, f, theirs, g) \
	_Static_assert(offsetof(struct ours, f) == offsetof(struct theirs, g) && \
		sizeof(((struct ours *)0)->f) == sizeof(((struct theirs *)0)->g), #ours "." #f)
#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), #ours)
#define VALUE(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours)

_Static_assert(sizeof(union lv_gid) == sizeof(union ibv_gid) && _Alignof(union lv_gid) == _Alignof(union ibv_gid), "gid");

SAME(lv_device, name, ibv_device, name);
SAME(lv_device, dev_name, ibv_device, dev_name);

SIZE(lv_gid_entry, ibv_gid_entry);
SAME(lv_gid_entry, gid, ibv_gid_entry, gid);
SAME(lv_gid_entry, index, ibv_gid_entry, gid_index);
SAME(lv_gid_entry, port, ibv_gid_entry, port_num);
SAME(lv_gid_entry, type, ibv_gid_entry, gid_type);
SAME(lv_gid_entry, ifindex, ibv_gid_entry, ndev_ifindex);
VALUE(0, IBV_GID_TYPE_IB);
VALUE(1, IBV_GID_TYPE_ROCE_V1);
VALUE(2, IBV_GID_TYPE_ROCE_V2);

SIZE(lv_device_attr, ibv_device_attr);
SAME(lv_device_attr, fw_ver, ibv_device_attr, fw_ver);
SAME(lv_device_attr, node_guid, ibv_device_attr, node_guid);
SAME(lv_device_attr, sys_image_guid, ibv_device_attr, sys_image_guid);
SAME(lv_device_attr, max_mr_size, ibv_device_attr, max_mr_size);
SAME(lv_device_attr, vendor_id, ibv_device_attr, vendor_id);
SAME(lv_device_attr, vendor_part_id, ibv_device_attr, vendor_part_id);
SAME(lv_device_attr, max_qp, ibv_device_attr, max_qp);
SAME(lv_device_attr, max_qp_wr, ibv_device_attr, max_qp_wr);
SAME(lv_device_attr, max_sge, ibv_device_attr, max_sge);
SAME(lv_device_attr, max_cqe, ibv_device_attr, max_cqe);
SAME(lv_device_attr, max_mr, ibv_device_attr, max_mr);
SAME(lv_device_attr, max_pd, ibv_device_attr, max_pd);
SAME(lv_device_attr, max_srq_sge, ibv_device_attr, max_srq_sge);
SAME(lv_device_attr, max_pkeys, ibv_device_attr, max_pkeys);
SAME(lv_device_attr, phys_port_cnt, ibv_device_attr, phys_port_cnt);

/* Libraries before 57 end before active_speed_ex. */
_Static_assert(sizeof(struct lv_port_attr) >= sizeof(struct ibv_port_attr), "lv_port_attr");
SAME(lv_port_attr, state, ibv_port_attr, state);
SAME(lv_port_attr, max_mtu, ibv_port_attr, max_mtu);
SAME(lv_port_attr, active_mtu, ibv_port_attr, active_mtu);
SAME(lv_port_attr, gid_tbl_len, ibv_port_attr, gid_tbl_len);
SAME(lv_port_attr, max_msg_sz, ibv_port_attr, max_msg_sz);
SAME(lv_port_attr, pkey_tbl_len, ibv_port_attr, pkey_tbl_len);
SAME(lv_port_attr, lid, ibv_port_attr, lid);
SAME(lv_port_attr, sm_lid, ibv_port_attr, sm_lid);
SAME(lv_port_attr, active_width, ibv_port_attr, active_width);
SAME(lv_port_attr, active_speed, ibv_port_attr, active_speed);
SAME(lv_port_attr, phys_state, ibv_port_attr, phys_state);
SAME(lv_port_attr, link_layer, ibv_port_attr, link_layer);
SAME(lv_port_attr, cap_flags2, ibv_port_attr, port_cap_flags2);
VALUE(LV_PORT_ACTIVE, IBV_PORT_ACTIVE);
VALUE(LV_LINK_ETHERNET, IBV_LINK_LAYER_ETHERNET);
VALUE(5, IBV_MTU_4096);

SIZE(lv_wc, ibv_wc);
SAME(lv_wc, wr_id, ibv_wc, wr_id);
SAME(lv_wc, status, ibv_wc, status);
SAME(lv_wc, opcode, ibv_wc, opcode);
SAME(lv_wc, vendor_err, ibv_wc, vendor_err);
SAME(lv_wc, byte_len, ibv_wc, byte_len);
SAME(lv_wc, qp_num, ibv_wc, qp_num);
VALUE(LV_WC_RECV, IBV_WC_RECV);

SIZE(lv_sge, ibv_sge);
SAME(lv_sge, addr, ibv_sge, addr);
SAME(lv_sge, length, ibv_sge, length);
SAME(lv_sge, lkey, ibv_sge, lkey);

SIZE(lv_send_wr, ibv_send_wr);
SAME(lv_send_wr, wr_id, ibv_send_wr, wr_id);
SAME(lv_send_wr, next, ibv_send_wr, next);
SAME(lv_send_wr, sg_list, ibv_send_wr, sg_list);
SAME(lv_send_wr, num_sge, ibv_send_wr, num_sge);
SAME(lv_send_wr, opcode, ibv_send_wr, opcode);
SAME(lv_send_wr, flags, ibv_send_wr, send_flags);
SAME(lv_send_wr, remote_addr, ibv_send_wr, wr.rdma.remote_addr);
SAME(lv_send_wr, rkey, ibv_send_wr, wr.rdma.rkey);
VALUE(LV_WR_WRITE, IBV_WR_RDMA_WRITE);
VALUE(LV_WR_SEND, IBV_WR_SEND);
VALUE(LV_SEND_SIGNALED, IBV_SEND_SIGNALED);
VALUE(LV_SEND_INLINE, IBV_SEND_INLINE);

SIZE(lv_recv_wr, ibv_recv_wr);
SAME(lv_recv_wr, num_sge, ibv_recv_wr, num_sge);

SIZE(lv_pd, ibv_pd);
SIZE(lv_mr, ibv_mr);
SAME(lv_mr, lkey, ibv_mr, lkey);
SAME(lv_mr, rkey, ibv_mr, rkey);
SAME(lv_cq, context, ibv_cq, context);
SAME(lv_qp, context, ibv_qp, context);
SAME(lv_qp, qp_num, ibv_qp, qp_num);

SIZE(lv_qp_init_attr, ibv_qp_init_attr);
SAME(lv_qp_init_attr, send_cq, ibv_qp_init_attr, send_cq);
SAME(lv_qp_init_attr, recv_cq, ibv_qp_init_attr, recv_cq);
SAME(lv_qp_init_attr, cap.max_inline_data, ibv_qp_init_attr, cap.max_inline_data);
SAME(lv_qp_init_attr, qp_type, ibv_qp_init_attr, qp_type);
SAME(lv_qp_init_attr, sq_sig_all, ibv_qp_init_attr, sq_sig_all);
VALUE(LV_QPT_RC, IBV_QPT_RC);

/* Ours has the fields of ibv_global_route as its own. */
SIZE(lv_ah_attr, ibv_ah_attr);
SAME(lv_ah_attr, dgid, ibv_ah_attr, grh.dgid);
SAME(lv_ah_attr, flow_label, ibv_ah_attr, grh.flow_label);
SAME(lv_ah_attr, sgid_index, ibv_ah_attr, grh.sgid_index);
SAME(lv_ah_attr, hop_limit, ibv_ah_attr, grh.hop_limit);
SAME(lv_ah_attr, traffic_class, ibv_ah_attr, grh.traffic_class);
SAME(lv_ah_attr, dlid, ibv_ah_attr, dlid);
SAME(lv_ah_attr, sl, ibv_ah_attr, sl);
SAME(lv_ah_attr, is_global, ibv_ah_attr, is_global);
SAME(lv_ah_attr, port_num, ibv_ah_attr, port_num);

SIZE(lv_qp_attr, ibv_qp_attr);
SAME(lv_qp_attr, qp_state, ibv_qp_attr, qp_state);
SAME(lv_qp_attr, path_mtu, ibv_qp_attr, path_mtu);
SAME(lv_qp_attr, rq_psn, ibv_qp_attr, rq_psn);
SAME(lv_qp_attr, sq_psn, ibv_qp_attr, sq_psn);
SAME(lv_qp_attr, dest_qp_num, ibv_qp_attr, dest_qp_num);
SAME(lv_qp_attr, access_flags, ibv_qp_attr, qp_access_flags);
SAME(lv_qp_attr, ah, ibv_qp_attr, ah_attr);
SAME(lv_qp_attr, pkey_index, ibv_qp_attr, pkey_index);
SAME(lv_qp_attr, max_rd_atomic, ibv_qp_attr, max_rd_atomic);
SAME(lv_qp_attr, max_dest_rd_atomic, ibv_qp_attr, max_dest_rd_atomic);
SAME(lv_qp_attr, min_rnr_timer, ibv_qp_attr, min_rnr_timer);
SAME(lv_qp_attr, port_num, ibv_qp_attr, port_num);
SAME(lv_qp_attr, timeout, ibv_qp_attr, timeout);
SAME(lv_qp_attr, retry_cnt, ibv_qp_attr, retry_cnt);
SAME(lv_qp_attr, rnr_retry, ibv_qp_attr, rnr_retry);
VALUE(LV_QPS_INIT, IBV_QPS_INIT);
VALUE(LV_QPS_RTR, IBV_QPS_RTR);
VALUE(LV_QPS_RTS, IBV_QPS_RTS);
VALUE(LV_QP_STATE, IBV_QP_STATE);
VALUE(LV_QP_ACCESS_FLAGS, IBV_QP_ACCESS_FLAGS);
VALUE(LV_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX);
VALUE(LV_QP_PORT, IBV_QP_PORT);
VALUE(LV_QP_AV, IBV_QP_AV);
VALUE(LV_QP_PATH_MTU, IBV_QP_PATH_MTU);
VALUE(LV_QP_TIMEOUT, IBV_QP_TIMEOUT);
VALUE(LV_QP_RETRY_CNT, IBV_QP_RETRY_CNT);
VALUE(LV_QP_RNR_RETRY, IBV_QP_RNR_RETRY);
VALUE(LV_QP_RQ_PSN, IBV_QP_RQ_PSN);
VALUE(LV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
VALUE(LV_QP_MIN_RNR_TIMER, IBV_QP_MIN_RNR_TIMER);
VALUE(LV_QP_SQ_PSN, IBV_QP_SQ_PSN);
VALUE(LV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
VALUE(LV_QP_DEST_QPN, IBV_QP_DEST_QPN);
VALUE(LV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
VALUE(LV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);

SIZE(lv_context, ibv_context);
SAME(lv_context, poll_cq, ibv_context, ops.poll_cq);
SAME(lv_context, post_send, ibv_context, ops.post_send);
SAME(lv_context, post_recv, ibv_context, ops.post_recv);
SAME(lv_context, cmd_fd, ibv_context, cmd_fd);
SAME(lv_context, abi_compat, ibv_context, abi_compat);
SIZE(lv_extended, verbs_context);
SAME(lv_extended, query_port, verbs_context, query_port);
SAME(lv_extended, sz, verbs_context, sz);
SAME(lv_extended, context, verbs_context, context);
